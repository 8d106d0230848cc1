//! Help pages and usage blocks in the layout of Istio Mixer.

use std::fmt::Write as _;

use super::flag::{LegacyFlag, flags_of};
use crate::cmd::flag_type::FlagType;
use mixer_base::quote::quoted;

pub(super) fn help(title: &str, command: &clap::Command) -> String {
    let about = command.get_long_about().or_else(|| command.get_about());
    let about = about.map(|a| a.to_string()).unwrap_or_default();
    format!("{}\n\n{}", about.trim_end(), usage(title, command))
}

/// The block that starts with `Usage:`.
pub(super) fn usage(title: &str, command: &clap::Command) -> String {
    let mut text = String::from("Usage:\n");
    let commands: Vec<&clap::Command> = command.get_subcommands().filter(|c| !c.is_hide_set()).collect();
    if commands.is_empty() {
        let _ = writeln!(text, "  {title} [flags]");
    } else {
        let _ = writeln!(text, "  {title} [command]\n\nAvailable Commands:");
        let about = |c: &clap::Command| c.get_about().map(|a| a.to_string()).unwrap_or_default();
        let mut lines: Vec<(String, String)> =
            commands.iter().map(|c| (c.get_name().to_owned(), about(c))).collect();
        if !title.contains(' ') {
            lines.push(("help".to_owned(), "Help about any command".to_owned()));
        }
        lines.sort();
        for (name, about) in lines {
            let _ = writeln!(text, "  {name:<11} {about}");
        }
    }
    let _ = write!(text, "\nFlags:\n{}", flag_lines(command));
    if !commands.is_empty() {
        let _ = writeln!(text, "\nUse \"{title} [command] --help\" for more information about a command.");
    }
    text
}

fn flag_lines(command: &clap::Command) -> String {
    let mut rows: Vec<(String, String, String)> = flags_of(command)
        .filter(|f| !f.hidden)
        .map(|f| (f.name.clone(), left_column(&f), right_column(&f)))
        .collect();
    rows.push(("help".to_owned(), "  -h, --help".to_owned(), format!("help for {}", command.get_name())));
    rows.sort();
    let width = rows.iter().map(|(_, left, _)| left.len()).max().unwrap_or(0);
    rows.iter().map(|(_, left, right)| format!("{left:<width$}   {right}\n")).collect()
}

fn left_column(flag: &LegacyFlag) -> String {
    let short = flag.short.map_or_else(|| "      ".to_owned(), |c| format!("  -{c}, "));
    let name =
        if flag.flag_type.name().is_empty() { String::new() } else { format!(" {}", flag.flag_type.name()) };
    format!("{short}--{}{name}", flag.name)
}

fn right_column(flag: &LegacyFlag) -> String {
    let shown = match flag.flag_type {
        _ if matches!(flag.default.as_str(), "" | "0" | "0s" | "false") => return flag.help.clone(),
        FlagType::Text => quoted(&flag.default).to_string(),
        FlagType::TextArray | FlagType::TextList => format!("[{}]", flag.default),
        _ => flag.default.clone(),
    };
    format!("{} (default {shown})", flag.help)
}
