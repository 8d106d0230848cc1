use std::os::unix::fs::symlink;

use super::*;

const BEFORE: &str = "kind: rule\nspec:\n    match: x\nmetadata: {name: r}\n";
const AFTER: &str = "kind: rule\nmetadata: {name: r}\nspec:\n  match: x\n";

fn formats(paths: &[&Path], more: FmtArgs) -> FmtArgs {
    FmtArgs { paths: paths.iter().map(|path| path.to_path_buf()).collect(), ..more }
}

fn plain() -> FmtArgs {
    FmtArgs { paths: Vec::new(), check: false, diff: false }
}

/// An output during whose first line something happens.
struct During<F>(Option<F>);

impl<F: FnOnce()> std::io::Write for During<F> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if let Some(happens) = self.0.take() {
            happens();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_edit_during_a_run_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for name in ["a.yaml", "b.yaml"] {
        std::fs::write(path(name), BEFORE).unwrap();
    }
    let (mut io, captured) = Io::captured("");
    let edited = path("b.yaml");
    io.out = Box::new(During(Some(move || {
        std::fs::write(&edited, BEFORE.replace("match: x", "match: y")).unwrap();
    })));
    let exit = run(&formats(&[directory.path()], plain()), &mut io).unwrap();
    assert_eq!((exit, captured.err().as_str()), (Exit::Success, ""));
    assert_eq!(std::fs::read_to_string(path("a.yaml")).unwrap(), AFTER);
    assert_eq!(std::fs::read_to_string(path("b.yaml")).unwrap(), AFTER.replace("match: x", "match: y"));
}

#[test]
fn each_file_is_formatted_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("a.yaml"), BEFORE).unwrap();
    symlink("a.yaml", path("b.yaml")).unwrap();
    let (mut io, captured) = Io::captured("");
    let check = FmtArgs { check: true, ..plain() };
    let (link, file) = (path("b.yaml"), path("a.yaml"));
    let paths = [&*link, directory.path(), &*file];
    assert_eq!(run(&formats(&paths, check), &mut io).unwrap(), Exit::Negative);
    assert_eq!(captured.out(), format!("{}\n", path("b.yaml").display()));
    let (mut io, captured) = Io::captured("");
    run(&formats(&paths, plain()), &mut io).unwrap();
    assert_eq!(captured.out(), format!("{}\n", path("b.yaml").display()));
    assert!(path("b.yaml").is_symlink());
    assert_eq!(std::fs::read_to_string(path("a.yaml")).unwrap(), AFTER);
}
