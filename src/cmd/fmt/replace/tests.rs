use std::os::unix::fs::symlink;

use rustix::fs::{XattrFlags, getxattr, setxattr};

use super::*;

const MAX: u64 = 1 << 10;

/// The names in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & PERMISSIONS
}

#[test]
fn what_belongs_to_a_file_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.yaml");
    std::fs::write(&path, "old").unwrap();
    let before = path.metadata().unwrap();
    // Only root can give files away; others keep their own.
    let owner = if before.uid() == 0 { 1234 } else { before.uid() };
    let group = if before.uid() == 0 { 4321 } else { before.gid() };
    std::os::unix::fs::chown(&path, Some(owner), Some(group)).unwrap();
    for permissions in [0o600, 0o640, 0o664, 0o4755] {
        std::fs::set_permissions(&path, Permissions::from_mode(permissions)).unwrap();
        Original::read(path.clone(), MAX).unwrap().replace(&format!("{permissions:o}")).unwrap();
        let after = path.metadata().unwrap();
        assert_eq!((after.uid(), after.gid(), mode(&path)), (owner, group, permissions));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{permissions:o}"));
    }
    assert_eq!(names(directory.path()), ["a.yaml"]);
}

#[test]
fn extended_attributes_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.yaml");
    std::fs::write(&path, "old").unwrap();
    let value = vec![b'x'; 2000];
    let has_attributes = setxattr(&path, "user.one", &value, XattrFlags::empty()).is_ok();
    let list: Vec<u8> = [
        &2_u32.to_le_bytes()[..],
        &entry(0x01, 6, u32::MAX),
        &entry(0x02, 4, 1234),
        &entry(0x04, 4, u32::MAX),
        &entry(0x10, 4, u32::MAX),
        &entry(0x20, 0, u32::MAX),
    ]
    .concat();
    let has_lists = setxattr(&path, ACCESS_CONTROL_LIST, &list, XattrFlags::empty()).is_ok();
    let permissions = mode(&path);
    Original::read(path.clone(), MAX).unwrap().replace("new").unwrap();
    assert_eq!((std::fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("new", permissions));
    let read = |name: &[u8]| {
        let mut value = vec![0; MAX_ATTRIBUTE];
        getxattr(&path, name, value.as_mut_slice()).map(|length| value.get(..length).unwrap().to_vec()).ok()
    };
    assert_eq!(read(b"user.one"), has_attributes.then_some(value));
    assert_eq!(read(ACCESS_CONTROL_LIST), has_lists.then(|| list.clone()));

    // A list that new files of the directory get is not that of the old file.
    if setxattr(directory.path(), "system.posix_acl_default", &list, XattrFlags::empty()).is_ok() {
        rustix::fs::removexattr(&path, ACCESS_CONTROL_LIST).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        Original::read(path.clone(), MAX).unwrap().replace("again").unwrap();
        assert_eq!((read(ACCESS_CONTROL_LIST), mode(&path)), (None, 0o600));
    }
}

/// An entry of an access control list.
fn entry(tag: u16, permissions: u16, id: u32) -> [u8; 8] {
    let mut entry = [0; 8];
    entry[..2].copy_from_slice(&tag.to_le_bytes());
    entry[2..4].copy_from_slice(&permissions.to_le_bytes());
    entry[4..].copy_from_slice(&id.to_le_bytes());
    entry
}

#[test]
fn an_owner_that_cannot_be_kept_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.yaml");
    std::fs::write(&path, "old").unwrap();
    let file = File::open(&path).unwrap();
    let kept = Kept::of(&file.metadata().unwrap());
    keep(&file, kept, &file).unwrap();
    // The system gives nobody this identity, not even for root.
    for other in [Kept { user: u32::MAX, ..kept }, Kept { group: u32::MAX, ..kept }] {
        let refused = keep(&file, other, &file).unwrap_err();
        let what = format!("its owner and group, {}:{}, cannot be kept: ", other.user, other.group);
        assert!(refused.why.starts_with(&what), "{refused:?}");
        assert!(refused.hint.contains("as root"), "{refused:?}");
    }
}

#[test]
fn files_that_cannot_be_replaced_stay_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let refused = |name: &str| Original::read(path(name), MAX).unwrap().replace("new").unwrap_err();
    std::fs::write(path("linked.yaml"), "old").unwrap();
    std::fs::hard_link(path("linked.yaml"), path("other.txt")).unwrap();
    let links = refused("linked.yaml");
    assert!(links.why.contains("2 names (hard links)") && links.hint.contains("mixer fmt -"), "{links:?}");
    std::fs::write(path("read-only.yaml"), "old").unwrap();
    std::fs::set_permissions(path("read-only.yaml"), Permissions::from_mode(0o444)).unwrap();
    let read_only = refused("read-only.yaml");
    assert!(read_only.why == "it is read-only" && read_only.hint.contains("chmod"), "{read_only:?}");
    assert_eq!(names(directory.path()), ["linked.yaml", "other.txt", "read-only.yaml"]);
    for name in names(directory.path()) {
        assert_eq!(std::fs::read_to_string(path(&name)).unwrap(), "old", "{name}");
    }
}

/// How another program changes a file while it is formatted.
type Change = fn(&Path);

#[test]
fn a_file_that_was_changed_meanwhile_stays_as_it_is() {
    let changes: [(&str, Change, Option<&str>); 6] = [
        ("written", |path| std::fs::write(path, "other").unwrap(), Some("other")),
        ("written, of the same size", |path| std::fs::write(path, "odd").unwrap(), Some("odd")),
        (
            "replaced",
            |path| {
                std::fs::write(path.with_extension("new"), "old").unwrap();
                std::fs::rename(path.with_extension("new"), path).unwrap();
            },
            Some("old"),
        ),
        (
            "replaced by a link",
            |path| {
                std::fs::rename(path, path.with_extension("moved")).unwrap();
                symlink(path.with_extension("moved"), path).unwrap();
            },
            Some("old"),
        ),
        ("removed", |path| std::fs::remove_file(path).unwrap(), None),
        ("linked", |path| std::fs::hard_link(path, path.with_extension("link")).unwrap(), Some("old")),
    ];
    for (name, change, expected) in changes {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.yaml");
        std::fs::write(&path, "old").unwrap();
        let original = Original::read(path.clone(), MAX).unwrap();
        change(&path);
        let before = names(directory.path());
        let refused = original.replace("new").unwrap_err();
        assert!(refused.why.contains("changed while"), "{name}: {refused:?}");
        assert_eq!(std::fs::read_to_string(&path).ok().as_deref(), expected, "{name}");
        assert_eq!(names(directory.path()), before, "{name}");
    }
}

#[test]
fn a_file_that_is_open_for_writing_stays_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.yaml");
    let mut writer = File::create(&path).unwrap();
    writer.write_all(b"half").unwrap();
    let original = Original::read(path.clone(), MAX).unwrap();
    let refused = original.replace("new").unwrap_err();
    assert_eq!(refused.why, "a program has it open for writing");
    writer.write_all(b" and half").unwrap();
    drop(writer);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "half and half");
    assert_eq!(names(directory.path()), ["a.yaml"]);
    Original::read(path.clone(), MAX).unwrap().replace("new").unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
}

#[test]
fn a_file_that_was_replaced_after_the_comparison_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.yaml");
    std::fs::write(&path, "old").unwrap();
    let original = Original::read(path.clone(), MAX).unwrap();
    let (new, beside) = original.create_beside().unwrap();
    std::fs::write(directory.path().join("other"), "other").unwrap();
    std::fs::rename(directory.path().join("other"), &path).unwrap();
    assert!(matches!(original.exchange_with(&new, &beside), Err(Refused::Changed(_))));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "other");
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(original.exchange_with(&new, &beside), Err(Refused::Changed(_))));
    assert_eq!(names(directory.path()), [".mixer-fmt.".to_owned() + &std::process::id().to_string() + ".0"]);
}

/// Nobody else can read the text before the file has its permissions.
#[test]
fn the_new_file_is_private_until_it_has_its_permissions() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.yaml");
    std::fs::write(&path, "old").unwrap();
    let original = Original::read(path, MAX).unwrap();
    // One that was left behind is not taken.
    let (_, first) = original.create_beside().unwrap();
    let (_, second) = original.create_beside().unwrap();
    assert_ne!(first, second);
    for beside in [first, second] {
        assert_eq!(mode(&beside), 0o600);
        assert_eq!(
            mixer_config::store::configuration_files(directory.path()).0.len(),
            1,
            "servers do not read it"
        );
    }
}
