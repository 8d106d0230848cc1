//! Embeds the sample configuration.

use std::error::Error;
use std::path::{Path, PathBuf};

/// The sample configuration, at the top of the repository.
const SAMPLE_DIR: &str = "../../../testdata/config";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={SAMPLE_DIR}");
    embed_sample(&Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join(SAMPLE_DIR).canonicalize()?)
}

/// Writes `sample.rs`: name and text of every file below `root`, in path order.
fn embed_sample(root: &Path) -> Result<(), Box<dyn Error>> {
    let mut files = Vec::new();
    gather(root, &mut files)?;
    files.sort();
    let mut code = "&[\n".to_owned();
    for file in files {
        let name = file.strip_prefix(root)?;
        code.push_str(&format!("    ({:?}, include_str!({:?})),\n", name.to_string_lossy(), file));
    }
    code.push_str("]\n");
    std::fs::write(Path::new(&std::env::var("OUT_DIR")?).join("sample.rs"), code)?;
    Ok(())
}

fn gather(directory: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    if !directory.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            gather(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "yaml" || e == "yml") {
            files.push(path);
        }
    }
    Ok(())
}
