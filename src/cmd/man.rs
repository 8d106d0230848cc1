//! `man`: man pages, generated from the command tree.

use std::path::{Path, PathBuf};

use super::exit::{Exit, Failure, Outcome, Stop};
use super::io::Io;
use super::personality::Personality;

/// Flags of `man`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ManArgs {
    /// Write one page per command to this directory instead of printing the page of `mixer`.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints the page of `mixer`, or writes the pages of all programs. `tree` returns the command tree of a program name.
pub(crate) fn run(args: &ManArgs, tree: fn(Personality) -> clap::Command, io: &mut Io) -> Outcome {
    let Some(dir) = &args.dir else {
        let pages = pages(tree(Personality::Mixer))?;
        if let Some((_, page)) = pages.first() {
            io.out.write_all(page)?;
        }
        return Ok(Exit::Success);
    };
    for personality in [Personality::Mixer, Personality::Mixs, Personality::Mixc, Personality::Galley] {
        write_pages(dir, tree(personality))?;
    }
    Ok(Exit::Success)
}

/// Writes the pages of one program into a directory, which is created if it is missing.
pub(crate) fn write_pages(dir: &Path, root: clap::Command) -> Result<(), Stop> {
    for (name, page) in pages(root)? {
        write_file(dir, &name, &page)?;
    }
    Ok(())
}

/// Writes a file in a directory, which is created if it is missing.
pub(crate) fn write_file(dir: &Path, name: &str, content: &[u8]) -> Result<(), Stop> {
    let path = dir.join(name);
    std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(&path, content))
        .map_err(|error| Failure::local(format!("cannot write `{}`", path.display())).cause(error).into())
}

/// File name and text of every page of one program: `mixer.1`, `mixer-check.1`, …
fn pages(root: clap::Command) -> Result<Vec<(String, Vec<u8>)>, Stop> {
    let name = root.get_name().to_owned();
    let mut root = root.disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    collect(&root, &name, &mut pages)?;
    Ok(pages)
}

fn collect(command: &clap::Command, title: &str, pages: &mut Vec<(String, Vec<u8>)>) -> Result<(), Stop> {
    let page = clap_mangen::Man::new(command.clone().name(title.to_owned())).date("").section("1");
    let mut text = Vec::new();
    page.render(&mut text)?;
    pages.push((format!("{title}.1"), text));
    for sub in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        collect(sub, &format!("{title}-{}", sub.get_name()), pages)?;
    }
    Ok(())
}
