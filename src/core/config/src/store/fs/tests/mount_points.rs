//! Directories that are empty, or have no configuration: a volume may not be mounted there yet.

use super::*;

/// No event tells of a volume that is mounted on it.
#[test]
fn an_empty_directory_is_taken_for_a_mount_point() {
    let directory = tempfile::tempdir().unwrap();
    let (volume, other) = (directory.path().join("volume"), directory.path().join("other"));
    std::fs::create_dir(&volume).unwrap();
    write(directory.path(), "a.yaml", &resource("a", "v"));
    let wake = Arc::new(Wake::default());
    let mut scanner = Scanner::new(directory.path().into(), WhenLost::Keep);
    scanner.watch(&wake);
    let mut empty = || {
        scanner.scan(Scope::Everything, wake.take(), Instant::now());
        let is_polled = scanner.coverage().0 == Coverage::Partial;
        (is_polled, scanner.contents().always_empty.iter().map(|path| path.to_string()).collect::<Vec<_>>())
    };
    let mount_point = volume.display().to_string();
    assert_eq!(empty(), (true, vec![mount_point.clone()]));
    // One that is new is polled, and nothing of it can be known from before.
    std::fs::create_dir(&other).unwrap();
    assert_eq!(empty(), (true, vec![mount_point]));
    std::fs::remove_dir(&other).unwrap();
    write(&volume, "b.yaml", &resource("b", "v"));
    assert_eq!(empty(), (false, vec![]));
    std::fs::remove_file(volume.join("b.yaml")).unwrap();
    assert_eq!(empty(), (true, vec![]), "its file was deleted");
}

/// An event that names a file is enough, however long the walk that found its directory empty is ago.
#[test]
fn a_directory_that_gets_its_first_file_is_no_mount_point_at_once() {
    for (kept, new, is_still_bare) in
        [(None, "b.yaml", false), (None, ".gitkeep", true), (Some(".gitkeep"), "b.yaml", false)]
    {
        let directory = tempfile::tempdir().unwrap();
        let volume = directory.path().join("volume");
        std::fs::create_dir(&volume).unwrap();
        kept.iter().for_each(|kept| write(&volume, kept, ""));
        write(directory.path(), "a.yaml", &resource("a", "v"));
        let wake = Arc::new(Wake::default());
        let mut scanner = Scanner::new(directory.path().into(), WhenLost::Keep);
        scanner.watch(&wake);
        let now = Instant::now();
        for _ in 0..2 {
            scanner.scan(Scope::Everything, wake.take(), now);
        }
        let bare = |scanner: &Scanner| {
            let contents = scanner.contents();
            (contents.always_empty.len(), contents.always_empty.len() + contents.always_bare.len())
        };
        assert_eq!(bare(&scanner), (usize::from(kept.is_none()), 1), "{kept:?} {new}");
        write(&volume, new, &resource("b", "v"));
        assert!(scanner.events_of_files().has_told_all());
        scanner.scan(Scope::Noted, wake.take(), now);
        assert_eq!(bare(&scanner), (0, usize::from(is_still_bare)), "{kept:?} {new}");
        assert_eq!(held(scanner.contents()).len(), 2 - usize::from(is_still_bare));
    }
}

/// As directories that are kept in a repository.
#[test]
fn a_directory_without_configuration_may_be_a_mount_point() {
    let directory = tempfile::tempdir().unwrap();
    let kept = directory.path().join("volume/.gitkeep");
    write(directory.path(), "volume/.gitkeep", "");
    write(directory.path(), "a.yaml", &resource("a", "v"));
    let mut scanner = Scanner::new(directory.path().into(), WhenLost::Keep);
    let mut bare = || {
        scanner.scan(Scope::Everything, Noted::default(), Instant::now());
        let contents = scanner.contents();
        assert_eq!(contents.always_empty.len(), 0);
        contents.always_bare.iter().map(|path| path.to_string()).collect::<Vec<_>>()
    };
    let mount_point = kept.parent().unwrap().display().to_string();
    for _ in 0..2 {
        assert_eq!(bare(), [&*mount_point]);
    }
    write(directory.path(), "volume/b.yaml", &resource("b", "v"));
    assert_eq!(bare(), [] as [&str; 0]);
    std::fs::remove_file(kept.with_file_name("b.yaml")).unwrap();
    assert_eq!(bare(), [] as [&str; 0], "its file was deleted");
}
