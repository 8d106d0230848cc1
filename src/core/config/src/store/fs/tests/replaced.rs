//! What stands in the place of a directory or of a file: links, other directories, nothing.

use super::changes::{NEW, OLD, Tree, fifo, rules};
use super::*;
use crate::Severity;

#[test]
fn a_link_to_a_directory_in_place_of_a_file_removes_nothing() {
    let mut tree = Tree::new();
    let elsewhere = tempfile::tempdir().unwrap();
    write(elsewhere.path(), "c.yaml", &resource("c", "new"));
    let beside = tree.directory.path().join("link");
    symlink(elsewhere.path(), &beside).unwrap();
    fs::rename(beside, tree.path()).unwrap();
    assert_eq!(tree.seen(), OLD);
    assert_eq!(tree.problems(), [("file-special", Severity::Error)]);
    assert_eq!(tree.after(60_000), OLD);
    let broken: Vec<_> = tree.scanner.contents().broken.iter().map(|b| b.file.to_string()).collect();
    assert_eq!(broken, [tree.path().display().to_string()], "nothing is deleted meanwhile");
    fs::remove_file(tree.path()).unwrap();
    tree.write(&rules(&["a", "b"], "new"));
    assert_eq!((tree.seen(), tree.problems()), (NEW.map(str::to_owned).to_vec(), vec![]));
    // At a start, the file may have been one of configuration as well.
    fs::remove_file(tree.path()).unwrap();
    symlink(elsewhere.path(), tree.path()).unwrap();
    let contents = store(tree.directory.path()).load();
    assert_eq!((held(&contents).len(), contents.broken.len(), contents.unavailable.clone()), (0, 1, None));
}

#[test]
fn what_stands_in_the_place_of_a_directory_deletes_nothing() {
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "c.yaml", &resource("c", "other"));
    type Place = fn(&Path, &Path);
    let stand_ins: [(&str, Place); 5] = [
        ("cannot read PATH: a link to a directory is not followed", |path, outside| {
            symlink(outside, path).unwrap()
        }),
        ("cannot read PATH: no such file or directory", |path, _| symlink("/nowhere/at/all", path).unwrap()),
        ("cannot read PATH: not a directory", |path, outside| symlink(outside.join("c.yaml"), path).unwrap()),
        ("cannot read PATH: not a directory", |path, _| fs::write(path, "x").unwrap()),
        ("cannot read PATH: not a directory", |path, _| fifo(path)),
    ];
    for (number, (text, stand_in)) in stand_ins.into_iter().enumerate() {
        let mut tree = Tree::new();
        let directory = tree.directory.path().join("policies");
        write(&directory, "deep/c.yaml", &resource("c", "old"));
        assert_eq!(tree.seen(), ["a=old", "b=old", "c=old"]);
        fs::remove_dir_all(&directory).unwrap();
        stand_in(&directory, outside.path());
        let text = text.replace("PATH", &directory.display().to_string());
        for milliseconds in [0, 300, 5000, 5000] {
            assert_eq!(tree.after(milliseconds), ["a=old", "b=old", "c=old"], "{number}");
            let contents = tree.scanner.contents();
            let found = contents.diagnostics.iter().find(|problem| problem.code == "store-unreadable");
            assert_eq!(found.map(|problem| problem.message.clone()), Some(text.clone()), "{number}");
            assert_eq!(contents.unavailable.as_ref(), Some(&text), "{number}");
            assert!(contents.broken.iter().any(|broken| broken.keeps_last), "{number}");
        }
        // Other files are read, and may define what was there.
        write(tree.directory.path(), "d.yaml", &resource("c", "new"));
        assert_eq!(tree.after(100), ["a=old", "b=old", "c=new"], "{number}");
        fs::remove_file(tree.directory.path().join("d.yaml")).unwrap();
        assert_eq!(tree.after(100), ["a=old", "b=old", "c=new"], "{number}");
        assert_eq!(tree.after(1500), ["a=old", "b=old", "c=old"], "{number}");
        // Without it, the directory is deleted.
        fs::remove_file(&directory).unwrap();
        assert_eq!(tree.after(100), ["a=old", "b=old", "c=old"], "{number}");
        assert_eq!(tree.after(1500), ["a=old", "b=old"], "{number}");
        assert_eq!(tree.problems(), [], "{number}");
    }
}

/// As behind a volume that is unmounted.
#[test]
fn an_empty_directory_in_the_place_of_another_one_deletes_nothing() {
    for deep in ["c.yaml", "deep/c.yaml"] {
        let mut tree = Tree::new();
        let root = tree.directory.path().to_owned();
        let (directory, aside) =
            (root.join("policies"), tempfile::tempdir_in(root.parent().unwrap()).unwrap());
        write(&directory, deep, &resource("c", "old"));
        write(&directory, "README", "notes");
        let all = ["a=old", "b=old", "c=old"];
        assert_eq!(tree.seen(), all);
        fs::create_dir(aside.path().join("empty")).unwrap();
        fs::rename(&directory, aside.path().join("volume")).unwrap();
        // A walk may find nothing in between.
        assert_eq!(tree.after(1), all);
        fs::rename(aside.path().join("empty"), &directory).unwrap();
        write(&root, "d.yaml", &resource("d", "new"));
        let text = format!(
            "cannot read {}: another directory, without configuration, is in its place: a volume may be unmounted",
            directory.display()
        );
        for milliseconds in [0, 300, 5000, 5000] {
            assert_eq!(tree.after(milliseconds), ["a=old", "b=old", "c=old", "d=new"], "{deep}");
            assert_eq!(tree.problems(), [("store-unreadable", Severity::Error)], "{deep}");
            let contents = tree.scanner.contents();
            assert_eq!(contents.unavailable.as_ref(), Some(&text), "{deep}");
        }
        // What was there may be defined elsewhere.
        write(&root, "e.yaml", &resource("c", "new"));
        assert_eq!(tree.after(100), ["a=old", "b=old", "c=new", "d=new"], "{deep}");
        fs::remove_file(root.join("e.yaml")).unwrap();
        assert_eq!(tree.after(2500), ["a=old", "b=old", "c=new", "d=new"], "{deep}");
        assert_eq!(tree.after(2500), ["a=old", "b=old", "c=old", "d=new"], "{deep}");
        // Mounted again, it can be emptied.
        fs::remove_dir(&directory).unwrap();
        fs::rename(aside.path().join("volume"), &directory).unwrap();
        assert_eq!(tree.after(100), ["a=old", "b=old", "c=old", "d=new"], "{deep}");
        assert_eq!(tree.problems(), [], "{deep}");
        fs::remove_file(directory.join(deep)).unwrap();
        assert_eq!(tree.after(100), ["a=old", "b=old", "c=old", "d=new"], "{deep}");
        assert_eq!(tree.after(1500), ["a=old", "b=old", "d=new"], "{deep}");
        assert_eq!(tree.problems(), [], "{deep}");
    }
}

/// As in front of older files that appear again when their volume is unmounted: nobody wrote them.
#[test]
fn what_lay_behind_a_volume_is_not_read() {
    for below in ["", "policies"] {
        let mut tree = Tree::new();
        let root = tree.directory.path().to_owned();
        let directory = root.join(below);
        write(&directory, "c.yaml", &resource("c", "old"));
        write(&directory, "deep/d.yaml", &resource("d", "old"));
        let all = ["a=old", "b=old", "c=old", "d=old"];
        assert_eq!(tree.seen(), all);
        tree.scanner.pretend_device(&directory, u64::MAX);
        tree.scanner.pretend_device(&directory.join("deep"), u64::MAX);
        fs::remove_dir_all(directory.join("deep")).unwrap();
        write(&directory, "c.yaml", &resource("c", "older"));
        write(&directory, "e.yaml", &resource("e", "older"));
        for milliseconds in [0, 300, 5000, 60_000] {
            assert_eq!(tree.after(milliseconds), all, "{below}");
            assert_eq!(tree.problems(), [("store-unreadable", Severity::Error)], "{below}");
        }
        let message = tree.scanner.contents().diagnostics[0].message.clone();
        assert!(message.contains("its volume is gone"), "{message}");
        // What is beside it changes.
        if !below.is_empty() {
            tree.write(&rules(&["a", "b"], "new"));
            assert_eq!(tree.after(1), ["a=new", "b=new", "c=old", "d=old"]);
        }
        // A start reads what is there.
        let mut scanner = Scanner::new(root, WhenLost::Keep);
        scanner.scan(Scope::Everything, Noted::default(), tree.now);
        assert_eq!(held(scanner.contents())[2..], ["c=older", "e=older"], "{below}");
    }
}

/// As after a mount over a directory with files: what is behind the volume was not deleted, and what the volume has is read.
#[test]
fn what_a_volume_hides_is_not_deleted() {
    let mut tree = Tree::new();
    let directory = tree.directory.path().to_owned();
    write(&directory, "c.yaml", &resource("c", "old"));
    write(&directory, "d.yaml", &resource("d", "old"));
    assert_eq!(tree.seen(), ["a=old", "b=old", "c=old", "d=old"]);
    tree.scanner.pretend_device(&directory, u64::MAX);
    tree.scanner.pretend_device_above(u64::MAX);
    fs::remove_file(directory.join("d.yaml")).unwrap();
    write(&directory, "c.yaml", &resource("c", "new"));
    for milliseconds in [0, 300, 5000, 60_000] {
        assert_eq!(tree.after(milliseconds), ["a=old", "b=old", "c=new", "d=old"]);
        assert_eq!(tree.problems(), [("store-unreadable", Severity::Error)]);
    }
    // It may be defined elsewhere.
    write(&directory, "z.yaml", &resource("d", "new"));
    assert_eq!(tree.after(1), ["a=old", "b=old", "c=new", "d=new"]);
    // All of it is there.
    write(&directory, "d.yaml", &resource("d", "new"));
    assert_eq!(tree.after(1500), ["a=old", "b=old", "c=new", "d=new"]);
    assert_eq!(tree.problems(), []);
    for name in ["d.yaml", "z.yaml"] {
        fs::remove_file(directory.join(name)).unwrap();
    }
    tree.after(1);
    assert_eq!(tree.after(1500), ["a=old", "b=old", "c=new"], "the volume is as any directory now");
}

#[test]
fn another_directory_with_configuration_replaces_what_was_there() {
    let mut tree = Tree::new();
    let root = tree.directory.path().to_owned();
    write(&root, "policies/c.yaml", &resource("c", "old"));
    let aside = tempfile::tempdir_in(root.parent().unwrap()).unwrap();
    write(aside.path(), "next/d.yaml", &resource("d", "new"));
    assert_eq!(tree.seen(), ["a=old", "b=old", "c=old"]);
    fs::rename(root.join("policies"), aside.path().join("before")).unwrap();
    fs::rename(aside.path().join("next"), root.join("policies")).unwrap();
    assert_eq!(tree.after(1).len(), 4);
    assert_eq!(tree.after(1500), ["a=old", "b=old", "d=new"]);
    assert_eq!(tree.problems(), []);
    // And is deleted as a whole.
    fs::remove_dir_all(root.join("policies")).unwrap();
    assert_eq!(tree.after(1).len(), 3);
    assert_eq!(tree.after(1500), ["a=old", "b=old"]);
    assert_eq!(tree.problems(), []);
}

#[test]
fn a_directory_comes_back_in_place_of_a_link() {
    let mut tree = Tree::new();
    let root = tree.directory.path().to_owned();
    write(&root, "policies/c.yaml", &resource("c", "old"));
    assert_eq!(tree.seen().len(), 3);
    // The directory serves elsewhere in the tree: what is edited there is in effect.
    fs::rename(root.join("policies"), root.join("moved")).unwrap();
    symlink("moved", root.join("policies")).unwrap();
    write(&root, "moved/c.yaml", &resource("c", "new"));
    assert_eq!(tree.after(5000), ["a=old", "b=old", "c=new"]);
    assert_eq!(tree.problems(), [("store-unreadable", Severity::Error)]);
    fs::remove_file(root.join("policies")).unwrap();
    fs::rename(root.join("moved"), root.join("policies")).unwrap();
    assert_eq!(tree.after(1), ["a=old", "b=old", "c=new"]);
    assert_eq!(tree.after(1500), ["a=old", "b=old", "c=new"]);
    assert_eq!(tree.problems(), []);
}

#[test]
fn istio_mixers_way_forgets_a_directory_that_became_a_link() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    write(root, "policies/c.yaml", &resource("c", "old"));
    let mut scanner = Scanner::new(root.into(), WhenLost::Drop);
    scanner.scan(Scope::Everything, Noted::default(), Instant::now());
    fs::rename(root.join("policies"), root.join(".moved")).unwrap();
    fs::remove_dir_all(root.join(".moved")).unwrap();
    symlink("/nowhere/at/all", root.join("policies")).unwrap();
    scanner.scan(Scope::Everything, Noted::default(), Instant::now());
    assert_eq!(held(scanner.contents()), Vec::<String>::new());
}

#[test]
fn a_link_to_a_directory_outside_is_told() {
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "c.yaml", &resource("c", "other"));
    let mut tree = Tree::new();
    let root = tree.directory.path().to_owned();
    // Of a volume of Kubernetes: what is behind it is read where it is.
    write(&root, "..1/deep/d.yaml", &resource("d", "v"));
    symlink("..1", root.join("..data")).unwrap();
    symlink("..data/deep", root.join("deep")).unwrap();
    let read = ["a=old", "b=old", "d=v"];
    assert_eq!((tree.seen(), tree.problems()), (read.map(str::to_owned).to_vec(), Vec::new()));
    let link = root.join("policies");
    symlink(outside.path(), &link).unwrap();
    assert_eq!(tree.seen(), read);
    let problem = tree.scanner.contents().diagnostics[0].clone();
    assert_eq!((problem.code, problem.severity), ("file-ignored", Severity::Warning));
    assert_eq!(problem.message, format!("not read: {}, a link to a directory", link.display()));
    assert_eq!(tree.scanner.contents().unavailable, None);
    // A tool tells the same.
    let source = root.display().to_string();
    let contents = crate::store::read_sources(&[source], &mut std::io::empty()).unwrap();
    let told = contents.diagnostics.iter().map(|d| (d.severity, d.message.clone())).collect::<Vec<_>>();
    let inside = (Severity::Info, "not read: deep".to_owned());
    assert_eq!(told, [inside, (Severity::Warning, problem.message.clone())]);
}

/// The watch of a directory outlives its name.
#[tokio::test]
async fn events_behind_a_link_do_not_lead_the_reader_there() {
    let outside = tempfile::tempdir().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    write(root, "a.yaml", &resource("a", "one"));
    write(root, "policies/b.yaml", &resource("b", "one"));
    let store = store(root);
    until(&store, &["a=one", "b=one"]).await;
    let moved = outside.path().join("moved");
    fs::rename(root.join("policies"), &moved).unwrap();
    symlink(&moved, root.join("policies")).unwrap();
    write(&moved, "b.yaml", &resource("b", "two"));
    write(&moved, "c.yaml", &resource("c", "two"));
    write(root, "a.yaml", &resource("a", "two"));
    let contents = until(&store, &["a=two", "b=one"]).await;
    assert!(contents.unavailable.is_some(), "{:?}", contents.diagnostics);
}

/// No event of the tree tells of a link outside of it, or of one where files are not looked for, that leads back.
#[tokio::test]
async fn a_link_on_the_way_of_a_file_is_followed() {
    for through in ["links/act", "conf/.links/act"] {
        let directory = tempfile::tempdir().unwrap();
        let (base, root) = (directory.path(), directory.path().join("conf"));
        write(&root, "v1/x.txt", &resource("a", "one"));
        write(&root, "v2/x.txt", &resource("a", "two"));
        let through = base.join(through);
        fs::create_dir(through.parent().unwrap()).unwrap();
        symlink(root.join("v1"), &through).unwrap();
        symlink(through.join("x.txt"), root.join("x.yaml")).unwrap();
        let store = store(&root);
        until(&store, &["a=one"]).await;
        for (version, wanted) in [("v2", "a=two"), ("v1", "a=one")] {
            let beside = through.with_file_name("next");
            symlink(root.join(version), &beside).unwrap();
            fs::rename(&beside, &through).unwrap();
            until(&store, &[wanted]).await;
        }
    }
}

/// Of more links outside than are watched, the others are polled.
#[test]
fn a_tree_with_links_through_links_outside_is_polled() {
    let directory = tempfile::tempdir().unwrap();
    let (base, root) = (directory.path(), directory.path().join("conf"));
    write(&root, "v1/x.txt", &resource("a", "one"));
    symlink("conf/v1", base.join("act")).unwrap();
    symlink("./..data/x.txt", root.join("y.yaml")).unwrap();
    symlink("v1", root.join("..data")).unwrap();
    let mut scanner = Scanner::new(root.clone(), WhenLost::Keep);
    scanner.watch(&Arc::new(Wake::default()));
    let mut coverage = || {
        scanner.scan(Scope::Everything, Noted::default(), Instant::now());
        scanner.coverage().0
    };
    assert_eq!(coverage(), Coverage::Full, "the links are inside");
    symlink("../act/x.txt", root.join("x.yaml")).unwrap();
    assert_eq!(coverage(), Coverage::Partial, "a link on the way is outside");
}

/// No event tells of a link on the way to the root, or of a directory further up.
#[tokio::test]
async fn what_is_exchanged_above_the_root_is_seen() {
    type Exchange = fn(&Path);
    let cases: [(&str, Exchange); 3] = [
        ("current/conf", |base| {
            symlink(base.join("rel2"), base.join("next")).unwrap();
            fs::rename(base.join("next"), base.join("current")).unwrap();
        }),
        ("through", |base| {
            symlink(base.join("rel2"), base.join("next")).unwrap();
            fs::rename(base.join("next"), base.join("current")).unwrap();
        }),
        ("rel1/conf", |base| {
            fs::rename(base.join("rel1"), base.join("old")).unwrap();
            write(&base.join("rel1/conf"), "a.yaml", &resource("a", "new"));
        }),
    ];
    for (root, exchange) in cases {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path();
        write(&base.join("rel1/conf"), "a.yaml", &resource("a", "old"));
        write(&base.join("rel2/conf"), "a.yaml", &resource("a", "new"));
        symlink(base.join("rel1"), base.join("current")).unwrap();
        symlink(base.join("current/conf"), base.join("through")).unwrap();
        let store = store(&base.join(root));
        drop(store.changed());
        store.loaded().await;
        assert_eq!(held(&store.contents()), ["a=old"]);
        exchange(base);
        let follow = async |wanted: &str| {
            while held(&store.contents()) != [wanted] {
                timeout(Duration::from_secs(20), store.changed())
                    .await
                    .unwrap_or_else(|_| panic!("{root}: {wanted}"));
            }
        };
        follow("a=new").await;
        fs::write(base.join(root).join("a.yaml"), resource("a", "edited")).unwrap();
        follow("a=edited").await;
    }
}
