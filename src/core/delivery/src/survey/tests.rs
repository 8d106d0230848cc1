use super::*;
use crate::spool::tests::open_with;

const LIMIT: u64 = 1 << 20;

/// Keeps so many records of three items in a directory, which nobody has then.
fn keep(directory: &Path, records: u32) {
    let mut spool = open_with(directory, LIMIT).unwrap();
    (0..records).for_each(|number| assert!(spool.push(3, format!("record {number}").as_bytes()).unwrap()));
}

fn found(homes: &[PathBuf]) -> Vec<(PathBuf, u64)> {
    let left = left_beside(&homes.iter().cloned().collect(), None);
    left.into_iter().map(|left| (left.directory, left.items)).collect()
}

/// The files of a directory with their contents.
fn files(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    files.sort();
    files
}

#[test]
fn what_nobody_sends_is_found_beside_the_directories_of_handlers() {
    let root = tempfile::tempdir().unwrap();
    let [here, gone, empty] = ["here", "gone", "empty"].map(|name| root.path().join(name));
    let logs = root.path().join("otlp/logs");
    keep(&here, 1);
    keep(&gone, 5);
    keep(&empty, 0);
    keep(&logs, 2);
    keep(&here.join("below"), 1);
    fs::write(root.path().join("file"), "").unwrap();
    fs::create_dir(root.path().join("foreign")).unwrap();
    fs::write(root.path().join("foreign/00000001.spool"), "something else").unwrap();
    std::os::unix::fs::symlink(&gone, root.path().join("link")).unwrap();
    std::os::unix::fs::symlink(&here, root.path().join("elsewhere")).unwrap();
    let before = files(&gone);
    assert_eq!(found(std::slice::from_ref(&here)), [(gone.clone(), 15), (logs.clone(), 6)]);
    assert_eq!(files(&gone), before, "nothing is changed");
    assert_eq!(found(&[here.clone(), root.path().join("otlp")]), [(gone.clone(), 15)]);
    assert_eq!(found(&[root.path().join("elsewhere")]), [(gone.clone(), 15), (logs.clone(), 6)], "a link");
    assert!(found(&[]).is_empty(), "nobody knows where to look");
    let mut spool = open_with(&gone, LIMIT).unwrap();
    assert_eq!(found(std::slice::from_ref(&here)), [(logs.clone(), 6)], "somebody has it");
    for _ in 0..2 {
        spool.oldest().unwrap();
        spool.remove_oldest().unwrap();
    }
    drop(spool);
    assert_eq!(found(std::slice::from_ref(&here)), [(gone, 9), (logs, 6)], "what is delivered is not left");
}

#[test]
fn what_cannot_be_read_is_one_item() {
    let root = tempfile::tempdir().unwrap();
    let [here, gone] = ["here", "gone"].map(|name| root.path().join(name));
    keep(&gone, 2);
    let segment = gone.join("00000001.spool");
    let mut bytes = fs::read(&segment).unwrap();
    // The length of the first record, and nothing is known of what follows.
    bytes[8..12].fill(0xff);
    fs::write(&segment, bytes).unwrap();
    fs::remove_file(gone.join("owner")).unwrap();
    let left = left_beside(&[here].into(), None);
    assert_eq!((left.len(), left[0].items), (1, 1));
    assert_eq!(left[0].detail, "a handler of an earlier version");
}

#[test]
fn directories_are_remembered_across_restarts() {
    let [root, memory] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let gone = root.path().join("gone");
    let listed = || crate::left_on_disk().into_iter().find(|left| left.directory == gone);
    let memory = memory.path().join("cache");
    let mut first = Surveyor::new(Some(memory.clone()));
    directories::want(&gone, &gone);
    first.note();
    keep(&gone, 4);
    let left = |items| LeftOnDisk {
        directory: gone.clone(),
        name: "test sender",
        detail: "a.test.ns".to_owned(),
        items,
        bytes: 0,
    };
    assert!(!directories::leave(left(0)), "the process ends");
    // The next one has no such handler.
    let mut second = Surveyor::new(Some(memory.clone()));
    assert!(second.unseen.contains(&gone));
    second.look_at([gone.clone()].into());
    let found = listed().unwrap();
    assert_eq!((found.name, &*found.detail, found.items), (FOUND, "a.test.ns of adapter test", 12));
    assert!(!second.unseen.contains(&gone));
    second.note();
    assert!(remembered(&memory).contains(&gone), "until somebody has it");
    // A handler takes it.
    directories::want(&gone, &gone);
    directories::take(&gone);
    second.look_at([gone.clone()].into());
    assert_eq!(listed(), None);
    assert!(!directories::leave(left(12)));
    second.look_at([gone.clone()].into());
    assert_eq!(listed().unwrap().name, "test sender", "who left it is known");
    fs::remove_dir_all(&gone).unwrap();
    second.look_at([gone.clone()].into());
    assert_eq!(listed(), None, "it was removed");
    second.note();
    assert!(!remembered(&memory).contains(&gone));
}

#[test]
fn what_is_remembered_is_bounded_and_its_own() {
    let memory = tempfile::tempdir().unwrap();
    let many: BTreeSet<PathBuf> = (0..1000).map(|n| PathBuf::from(format!("/gone/{n}"))).collect();
    remember(memory.path(), &many).unwrap();
    assert_eq!(remembered(memory.path()).len(), MAX_REMEMBERED);
    let mut surveyor = Surveyor::new(Some(memory.path().to_owned()));
    surveyor.note();
    assert!(remembered(memory.path()).len() <= MAX_REMEMBERED);
    let file = memory.path().join(FILE);
    for (text, expected) in [
        (format!("{HEADING}\n/a\n\nrelative\n/b c\n"), vec!["/a", "/b c"]),
        ("something else\n/a\n".to_owned(), vec![]),
        (String::new(), vec![]),
    ] {
        fs::write(&file, text).unwrap();
        let expected: BTreeSet<PathBuf> = expected.into_iter().map(PathBuf::from).collect();
        assert_eq!(remembered(memory.path()), expected);
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(remembered(memory.path()), BTreeSet::new());
}
