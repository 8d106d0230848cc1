//! `fmt` on files: which are formatted, what each keeps, and what is refused.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use super::run;

const BEFORE: &str =
    "kind: rule\nspec:\n    actions: []\n    match: x == 1 # why\nmetadata: {name: r, namespace: n}\n";
const AFTER: &str =
    "kind: rule\nmetadata: {name: r, namespace: n}\nspec:\n  match: x == 1 # why\n  actions: []\n";

fn write(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, BEFORE).unwrap();
}

/// The files that servers read are formatted, each once, and none outside of the directory.
#[test]
fn files_of_a_directory_are_those_of_servers() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join("policy").join(name);
    let outside = directory.path().join("outside/other.yaml");
    let read = [".d/y.yaml", ".hidden.yaml", "a.yaml", "below/b.yml"];
    let unread = ["._a.yaml", ".#a.yaml", "a.yaml~", "B.YAML", "notes.txt"];
    read.iter().chain(&unread).for_each(|name| write(&path(name)));
    write(&outside);
    symlink(".", path("itself")).unwrap();
    symlink("../outside", path("outside")).unwrap();
    symlink("a.yaml", path("z.yaml")).unwrap();
    let shown =
        |names: &[&str]| names.iter().map(|name| format!("{}\n", path(name).display())).collect::<String>();
    let root = path("").display().to_string();
    let root = root.trim_end_matches('/');
    let check = run(&["mixer", "fmt", "--check", root]);
    assert_eq!((check.code, check.out), (1, shown(&read)), "{}", check.err);
    let written = run(&["mixer", "fmt", root]);
    assert_eq!((written.code, written.out, written.err.as_str()), (0, shown(&read), ""));
    for name in read {
        assert_eq!(std::fs::read_to_string(path(name)).unwrap(), AFTER, "{name}");
    }
    for name in unread {
        assert_eq!(std::fs::read_to_string(path(name)).unwrap(), BEFORE, "{name}");
    }
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), BEFORE);
    assert!(path("z.yaml").is_symlink());
    // A directory that is named itself may be a link.
    let link = path("outside").display().to_string();
    let named = run(&["mixer", "fmt", &link]);
    assert_eq!((named.code, named.out), (0, format!("{link}/other.yaml\n")), "{}", named.err);
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), AFTER);
}

/// What cannot be read or replaced is an error of that file alone.
#[test]
fn the_other_files_are_formatted_all_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("a.yaml"), b"a: \xff\xfe\n").unwrap();
    std::fs::write(path("b.yaml"), "b: 1\nb: 2\n").unwrap();
    assert!(Command::new("mkfifo").arg(path("c.yaml")).status().unwrap().success());
    symlink("nowhere", path("d.yaml")).unwrap();
    write(&path("e.yaml"));
    std::fs::hard_link(path("e.yaml"), path("e.txt")).unwrap();
    write(&path("f.yaml"));
    std::fs::set_permissions(path("f.yaml"), PermissionsExt::from_mode(0o444)).unwrap();
    std::fs::create_dir(path("g.yaml")).unwrap();
    write(&path("h.yaml"));
    let missing = path("missing.yaml").display().to_string();
    let shown = directory.path().display().to_string();
    let ran = run(&["mixer", "fmt", &missing, &shown]);
    assert_eq!((ran.code, ran.out), (3, format!("{}\n", path("h.yaml").display())), "{}", ran.err);
    assert_eq!(std::fs::read_to_string(path("h.yaml")).unwrap(), AFTER);
    let errors: Vec<&str> = ran.err.lines().filter(|line| !line.starts_with("  hint: ")).collect();
    let expected = [
        ("missing.yaml", "cannot read `PATH`", "No such file"),
        ("a.yaml", "cannot read `PATH`", "the text is not UTF-8"),
        ("b.yaml", "PATH:1: cannot be formatted", "a key is there twice"),
        ("c.yaml", "cannot read `PATH`", "not a regular file but a FIFO"),
        ("d.yaml", "cannot read `PATH`", "No such file"),
        ("e.yaml", "cannot write `PATH`", "it has 2 names (hard links)"),
        ("f.yaml", "cannot write `PATH`", "it is read-only"),
    ];
    // What servers find first is told first.
    let told = |name: &str, what: &str, cause: &str| {
        let what = format!("error: {}", what.replace("PATH", &path(name).display().to_string()));
        let cause = format!("  cause: {cause}");
        errors.windows(2).any(|lines| lines[0] == what && lines[1].starts_with(&cause))
    };
    for (name, what, cause) in expected {
        assert!(told(name, what, cause), "{name}: {}", ran.err);
    }
    assert_eq!(errors.len(), 2 * expected.len(), "{}", ran.err);
    for name in ["e.yaml", "e.txt", "f.yaml"] {
        assert_eq!(std::fs::read_to_string(path(name)).unwrap(), BEFORE, "{name}");
    }
    // The status without a file that cannot be read or written.
    let refused = run(&["mixer", "fmt", &path("b.yaml").display().to_string()]);
    assert_eq!(refused.code, 2, "{}", refused.err);
}

/// Somebody else's file stays theirs: by root it is kept so, and by others it is refused.
#[test]
fn the_owner_of_a_file_is_kept() {
    const NOBODY: u32 = 65534;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.yaml");
    write(&path);
    let is_root = path.metadata().unwrap().uid() == 0;
    let (user, group) =
        if is_root { (1234, 4321) } else { (path.metadata().unwrap().uid(), path.metadata().unwrap().gid()) };
    let give = |mode: u32| {
        write(&path);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        std::os::unix::fs::chown(&path, Some(user), Some(group)).unwrap();
    };
    let found = || {
        let metadata = path.metadata().unwrap();
        (metadata.uid(), metadata.gid(), metadata.mode() & 0o7777)
    };
    give(0o600);
    let shown = path.display().to_string();
    let ran = run(&["mixer", "fmt", &shown]);
    assert_eq!((ran.code, found()), (0, (user, group, 0o600)), "{}", ran.err);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), AFTER);
    if is_root {
        give(0o666);
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o777)).unwrap();
        // The directory of the build may be closed to others. A file that this process has written may be busy: another thread may have
        // started a process meanwhile.
        let binary = directory.path().join("mixer");
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_mixer")).arg(&binary).status().unwrap();
        assert!(copied.success());
        let mut command = Command::new(&binary);
        std::os::unix::process::CommandExt::uid(&mut command, NOBODY);
        std::os::unix::process::CommandExt::gid(&mut command, NOBODY);
        let output = command.args(["fmt", &shown]).stdin(Stdio::null()).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{err}");
        assert!(
            err.contains("its owner and group, 1234:4321, cannot be kept")
                && err.contains("hint: run `mixer fmt` as"),
            "{err}"
        );
        assert_eq!(
            (std::fs::read_to_string(&path).unwrap().as_str(), found()),
            (BEFORE, (user, group, 0o666))
        );
    }
    let mut names = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.all(|name| name == "a.yaml" || name == "mixer"), "nothing is left behind");
}
