//! `collateral`: documentation and completion files in the formats of Istio. A hidden command for build scripts.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap_complete::Shell;
use serde_json::json;

use super::completions;
use super::exit::{Exit, Outcome, Stop};
use super::man::{self, write_file};
use super::output;
use super::personality::Personality;

/// Flags of `collateral`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CollateralArgs {
    /// Output directory.
    #[arg(short = 'o', long = "output-dir", alias = "outputDir", default_value = ".", value_name = "DIR")]
    output_dir: PathBuf,
    /// Write all formats.
    #[arg(long)]
    all: bool,
    /// Write Markdown pages.
    #[arg(long)]
    markdown: bool,
    /// Write man pages.
    #[arg(long)]
    man: bool,
    /// Write a completion script for bash.
    #[arg(long)]
    bash: bool,
    /// Write a completion script for zsh.
    #[arg(long)]
    zsh: bool,
    /// Write a description of all commands as YAML.
    #[arg(long)]
    yaml: bool,
    /// Write an HTML page with front matter.
    #[arg(long = "html-fragment-with-front-matter", alias = "html_fragment_with_front_matter")]
    html_fragment_with_front_matter: bool,
}

/// Writes the selected formats.
pub(crate) fn run(
    args: &CollateralArgs,
    personality: Personality,
    tree: fn(Personality) -> clap::Command,
) -> Outcome {
    let dir = args.output_dir.as_path();
    let name = personality.name();
    let root = tree(personality);
    if args.all || args.markdown {
        for (title, command) in commands(&root) {
            write_file(
                dir,
                &format!("{}.md", title.replace(' ', "_")),
                markdown(&title, command).as_bytes(),
            )?;
        }
    }
    if args.all || args.man {
        man::write_pages(dir, root.clone())?;
    }
    if args.all || args.bash {
        write_file(dir, &format!("{name}.bash"), &completions::script(&root, Shell::Bash))?;
    }
    if args.all || args.zsh {
        write_file(dir, &format!("_{name}"), &completions::script(&root, Shell::Zsh))?;
    }
    if args.all || args.yaml {
        let list: Vec<serde_json::Value> =
            commands(&root).into_iter().map(|(title, command)| describe(&title, command)).collect();
        write_file(dir, &format!("{name}.yaml"), output::yaml(&json!({ "commands": list })).as_bytes())?;
    }
    if args.all || args.html_fragment_with_front_matter {
        write_html(dir, name, &root)?;
    }
    Ok(Exit::Success)
}

/// All visible commands with their full names, the root first.
fn commands(root: &clap::Command) -> Vec<(String, &clap::Command)> {
    let mut found = vec![(root.get_name().to_owned(), root)];
    let mut next = 0;
    while let Some((title, command)) = found.get(next).cloned() {
        let children = command.get_subcommands().filter(|c| !c.is_hide_set());
        found.extend(children.map(|c| (format!("{title} {}", c.get_name()), c)));
        next += 1;
    }
    found
}

/// Name, help and default of every visible flag.
fn flags(command: &clap::Command) -> Vec<(String, String, String)> {
    command
        .get_arguments()
        .filter(|a| !a.is_hide_set())
        .map(|arg| {
            let long = arg.get_long().map(|l| format!("--{l}")).unwrap_or_else(|| arg.get_id().to_string());
            let spelling = arg.get_short().map_or_else(|| long.clone(), |s| format!("-{s}, {long}"));
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let default: Vec<_> = arg.get_default_values().iter().map(|v| v.to_string_lossy()).collect();
            (spelling, help, default.join(","))
        })
        .collect()
}

fn about(command: &clap::Command) -> String {
    command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string).unwrap_or_default()
}

fn markdown(title: &str, command: &clap::Command) -> String {
    let mut text = format!("# {title}\n\n{}\n", about(command));
    let flags = flags(command);
    if !flags.is_empty() {
        text.push_str("\n| Flag | Default | Meaning |\n|---|---|---|\n");
        for (flag, help, default) in flags {
            let _ = writeln!(text, "| `{flag}` | {default} | {} |", help.replace('|', "\\|"));
        }
    }
    text
}

fn describe(title: &str, command: &clap::Command) -> serde_json::Value {
    let flags: Vec<serde_json::Value> = flags(command)
        .into_iter()
        .map(|(flag, help, default)| json!({ "flag": flag, "default": default, "help": help }))
        .collect();
    json!({ "name": title, "description": about(command), "flags": flags })
}

fn write_html(dir: &std::path::Path, name: &str, root: &clap::Command) -> Result<(), Stop> {
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut text = format!("---\ntitle: {name}\ngenerator: {name} collateral\n---\n");
    for (title, command) in commands(root) {
        let _ = writeln!(
            text,
            "<h2 id=\"{}\">{title}</h2>\n<p>{}</p>",
            title.replace(' ', "-"),
            escape(&about(command))
        );
        text.push_str("<table>\n");
        for (flag, help, _) in flags(command) {
            let _ =
                writeln!(text, "<tr><td><code>{}</code></td><td>{}</td></tr>", escape(&flag), escape(&help));
        }
        text.push_str("</table>\n");
    }
    write_file(dir, &format!("{name}.html"), text.as_bytes())
}
