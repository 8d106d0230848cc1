//! What is gone before anybody could read it: it may have what is missing elsewhere, and come back by another name.

use std::fs::File;
use std::io::Write as _;

use super::super::watch::LastEvent;
use super::changes::{OLD, Tree, rules};
use super::*;

/// The files and directories of which it is unknown what they have.
fn unknown(tree: &Tree) -> Vec<String> {
    let root = tree.directory.path().display().to_string();
    let broken = tree.scanner.contents().broken.iter().filter(|broken| !broken.keeps_last);
    broken.map(|broken| broken.file.strip_prefix(&root).unwrap().trim_start_matches('/').to_owned()).collect()
}

/// `b` moves from `a.yaml` to a new file that is still open.
fn moving(tree: &mut Tree, name: &str) -> File {
    let path = tree.directory.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut writer = File::create(path).unwrap();
    writer.write_all(b"kind: ru").unwrap();
    tree.write(&rules(&["a"], "old"));
    assert_eq!((tree.seen(), unknown(tree)), (vec!["a=old".to_owned()], vec![name.to_owned()]));
    writer
}

fn rename(tree: &Tree, from: &str, to: &str) {
    fs::rename(tree.directory.path().join(from), tree.directory.path().join(to)).unwrap();
}

#[test]
fn a_file_that_is_renamed_before_it_was_read_is_waited_for() {
    let mut tree = Tree::new();
    let mut writer = moving(&mut tree, "z.yaml");
    rename(&tree, "z.yaml", "z.tmp");
    for pause in [0, 500, 490] {
        tree.after(pause);
        assert_eq!(unknown(&tree), ["z.yaml"]);
    }
    writer.write_all(b"le\nmetadata: {name: b, namespace: x}\nspec: {match: new}\n").unwrap();
    drop(writer);
    rename(&tree, "z.tmp", "y.yaml");
    assert_eq!(tree.after(5), ["a=old", "b=new"]);
    tree.after(5);
    assert_eq!((unknown(&tree).len(), tree.problems().len()), (0, 0), "it was gone for a second");
}

#[test]
fn so_it_is_where_events_tell_of_it() {
    let mut tree = Tree::new();
    let wake = Arc::new(Wake::default());
    tree.scanner.watch(&wake);
    tree.seen();
    let real = tree.directory.path().canonicalize().unwrap();
    let told = |tree: &mut Tree, milliseconds: u64, events: &[(&str, LastEvent)]| {
        forget_events(&mut tree.scanner, &wake);
        tree.now += Duration::from_millis(milliseconds);
        let paths = events.iter().map(|(name, event)| (real.join(name), *event)).collect();
        let walked = tree.scanner.walked();
        let changed = tree.scanner.scan(Scope::Noted, Noted { paths, ..Noted::default() }, tree.now);
        assert_eq!(tree.scanner.walked(), walked, "no walk is needed");
        (changed, unknown(tree))
    };
    let writer = File::create(tree.path().with_file_name("z.yaml")).unwrap();
    tree.write(&rules(&["a"], "old"));
    let z = || vec!["z.yaml".to_owned()];
    let both = [("a.yaml", LastEvent::Closed), ("z.yaml", LastEvent::Written)];
    assert_eq!(told(&mut tree, 0, &both), (true, z()));
    assert_eq!(held(tree.scanner.contents()), ["a=old"]);
    rename(&tree, "z.yaml", "z.tmp");
    drop(writer);
    assert_eq!(told(&mut tree, 0, &[("z.yaml", LastEvent::Gone), ("z.tmp", LastEvent::Closed)]).1, z());
    assert_eq!(told(&mut tree, 990, &[]), (false, z()));
    // Another one comes and goes, which may be the one that is missing.
    assert_eq!(told(&mut tree, 5, &[("y.yaml", LastEvent::Closed)]).1, z());
    assert_eq!(told(&mut tree, 500, &[]).1, z());
    assert_eq!(told(&mut tree, 500, &[]), (true, Vec::new()));
    assert_eq!((held(tree.scanner.contents()), tree.scanner.contents().files), (vec!["a=old".to_owned()], 1));
    assert!(!tree.scanner.awaits_change());
}

#[test]
fn a_directory_that_is_renamed_before_its_files_were_read_is_waited_for() {
    let mut tree = Tree::new();
    let outside = tempfile::tempdir().unwrap();
    let writer = moving(&mut tree, "d/z.yaml");
    fs::rename(tree.directory.path().join("d"), outside.path().join("d")).unwrap();
    assert_eq!(tree.after(300), ["a=old"]);
    assert_eq!(unknown(&tree), ["d/z.yaml"]);
    tree.after(1_000);
    assert_eq!(unknown(&tree), [""; 0]);
    drop(writer);
}

#[test]
fn what_cannot_be_read_is_waited_for_when_it_is_replaced() {
    let mut tree = Tree::new();
    let large = tree.directory.path().join("large.yaml");
    File::create(&large).unwrap().set_len(20 << 20).unwrap();
    let link = tree.directory.path().join("link.yaml");
    symlink("/nowhere/at/all", &link).unwrap();
    let both = ["large.yaml", "link.yaml"];
    let sorted = |tree: &Tree| {
        let mut all = unknown(tree);
        all.sort();
        all
    };
    tree.write(&rules(&["a"], "old"));
    assert_eq!(tree.seen(), ["a=old"]);
    assert_eq!(sorted(&tree), both);
    fs::remove_file(&large).unwrap();
    fs::remove_file(&link).unwrap();
    for pause in [0, 500, 490] {
        tree.after(pause);
        assert_eq!(sorted(&tree), both);
    }
    fs::write(&link, resource("b", "new")).unwrap();
    assert_eq!(tree.after(5), ["a=old", "b=new"]);
    assert_eq!(sorted(&tree), ["large.yaml"]);
    tree.after(5);
    assert_eq!(unknown(&tree), [""; 0]);
}

#[test]
fn a_directory_read_as_istio_mixer_does_it_waits_for_nothing() {
    let mut tree = Tree::new();
    tree.scanner = Scanner::new(tree.directory.path().into(), WhenLost::Drop);
    assert_eq!(tree.seen(), OLD);
    let writer = moving(&mut tree, "z.yaml");
    rename(&tree, "z.yaml", "z.tmp");
    tree.seen();
    assert_eq!(unknown(&tree), [""; 0]);
    drop(writer);
}
