//! `man`: manual pages, made from the same definitions as `--help`.

use std::path::{Path, PathBuf};

use super::{Exit, Failure, Io, Outcome, Personality, Stop, tree};

/// Flags of `man`.
#[derive(Debug, Clone, clap::Args)]
pub struct ManArgs {
    /// Write one page a command into this directory instead of printing the page of `mixer`.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints the page of `mixer`, or writes all pages of all names.
pub(crate) fn run(args: &ManArgs, io: &mut Io) -> Outcome {
    let Some(dir) = &args.dir else {
        let pages = pages(Personality::Mixer)?;
        if let Some((_, page)) = pages.first() {
            io.out.write_all(page)?;
        }
        return Ok(Exit::Success);
    };
    for personality in [Personality::Mixer, Personality::Mixs, Personality::Mixc] {
        write_pages(dir, personality)?;
    }
    Ok(Exit::Success)
}

/// Writes the pages of one name into a directory, which is made if it is missing.
pub(crate) fn write_pages(dir: &Path, personality: Personality) -> Result<(), Stop> {
    for (name, page) in pages(personality)? {
        write_file(dir, &name, &page)?;
    }
    Ok(())
}

/// Writes a file below a directory, which is made if it is missing.
pub(crate) fn write_file(dir: &Path, name: &str, content: &[u8]) -> Result<(), Stop> {
    let path = dir.join(name);
    std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(&path, content))
        .map_err(|error| Failure::local(format!("cannot write `{}`", path.display())).cause(error).into())
}

/// File name and text of every page of one name: `mixer.1`, `mixer-check.1`, …
pub(crate) fn pages(personality: Personality) -> Result<Vec<(String, Vec<u8>)>, Stop> {
    let mut root = tree::for_documents(personality).disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    collect(&root, personality.name(), &mut pages)?;
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
