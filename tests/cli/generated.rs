//! Collateral, completions and manual pages.

use std::path::{Path, PathBuf};

use crate::run;

#[test]
fn collateral_files_are_written_on_demand() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().display().to_string();
    assert_eq!(run(&["mixc", "collateral", "-o", &out]).code, 0);
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 0);
    assert_eq!(run(&["mixc", "collateral", "-o", &out, "--all"]).code, 0);
    for name in ["mixc.md", "mixc_check.md", "mixc.yaml", "mixc-check.1", "mixc.bash", "_mixc", "mixc.html"] {
        assert!(dir.path().join(name).is_file(), "{name}");
    }
}

/// Compares generated text with a golden file; `UPDATE_GOLDEN=1` writes the file first.
fn assert_golden(path: &Path, text: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let written =
            std::fs::create_dir_all(path.parent().unwrap_or(path)).and_then(|()| std::fs::write(path, text));
        assert!(written.is_ok(), "{}: {written:?}", path.display());
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == text, "{} is out of date: run UPDATE_GOLDEN=1 cargo test --test cli", path.display());
}

#[test]
fn completions_and_manual_pages_are_up_to_date() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("completions");
    for name in ["mixer", "mixs", "mixc", "galley"] {
        for (shell, file) in [
            ("bash", format!("{name}.bash")),
            ("zsh", format!("_{name}")),
            ("fish", format!("{name}.fish")),
            ("elvish", format!("{name}.elv")),
            ("powershell", format!("_{name}.ps1")),
        ] {
            let ran = run(&["mixer", "completions", shell, "--name", name]);
            assert_eq!(ran.code, 0, "{}", ran.err);
            assert_golden(&root.join(file), &ran.out);
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let ran = run(&["mixer", "man", "--dir", &dir.path().display().to_string()]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        let text = std::fs::read_to_string(entry.path()).unwrap();
        assert_golden(&root.join("man").join(entry.file_name()), &text);
        names.push(entry.file_name());
    }
    for entry in std::fs::read_dir(root.join("man")).unwrap() {
        let name = entry.unwrap().file_name();
        assert!(names.contains(&name), "{name:?} belongs to no command");
    }
    assert!(names.len() > 15, "{names:?}");
}
