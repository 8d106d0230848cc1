//! Files whose directory, link or target becomes another one.

use super::*;

#[tokio::test]
async fn a_file_whose_directory_or_a_link_to_it_is_exchanged_is_followed() {
    for is_link in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path();
        let write = |at: &str, text: &str| {
            std::fs::create_dir_all(base.join(at)).unwrap();
            std::fs::write(base.join(at).join("list"), format!("{text}\n")).unwrap();
        };
        write("rel1", "a");
        let lists = base.join(if is_link { "current" } else { "rel1" });
        if is_link {
            std::os::unix::fs::symlink(base.join("rel1"), &lists).unwrap();
        }
        let hour = SignedDuration::from_secs(3600);
        let params = Params {
            provider_file: lists.join("list").display().to_string(),
            refresh_interval: hour,
            ttl: hour,
            blacklist: true,
            ..Params::default()
        };
        let f = Fixture::new(params).await;
        assert!(!f.has("a"));
        if is_link {
            write("rel2", "b");
            std::os::unix::fs::symlink(base.join("rel2"), base.join("next")).unwrap();
            std::fs::rename(base.join("next"), &lists).unwrap();
        } else {
            std::fs::rename(base.join("rel1"), base.join("old")).unwrap();
            write("rel1", "b");
        }
        f.until(|f| !f.has("b")).await;
        std::fs::write(lists.join("list"), "c\n").unwrap();
        f.until(|f| !f.has("c")).await;
    }
}

/// Nobody waits an hour for an edit of what a link leads to, however many links there are.
#[tokio::test]
async fn a_file_that_links_lead_to_is_followed() {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path();
    for at in ["lists", "between", "real"] {
        std::fs::create_dir(base.join(at)).unwrap();
    }
    let link = |target: &str, at: &str| {
        let beside = base.join("beside");
        std::os::unix::fs::symlink(target, &beside).unwrap();
        std::fs::rename(&beside, base.join(at)).unwrap();
    };
    let write = |at: &str, text: &str| std::fs::write(base.join(at), format!("{text}\n")).unwrap();
    write("real/first", "a");
    write("real/second", "c");
    link("../between/link", "lists/list");
    link("../real/first", "between/link");
    let hour = SignedDuration::from_secs(3600);
    let params = Params {
        provider_file: base.join("lists/list").display().to_string(),
        refresh_interval: hour,
        ttl: hour,
        blacklist: true,
        ..Params::default()
    };
    let f = Fixture::new(params).await;
    assert!(!f.has("a"));
    write("real/first", "b");
    f.until(|f| !f.has("b")).await;
    link("../real/second", "between/link");
    f.until(|f| !f.has("c")).await;
    write("real/second", "d");
    f.until(|f| !f.has("d")).await;
    // It may be removed and written again, and its directory may be another one.
    std::fs::rename(base.join("real"), base.join("old")).unwrap();
    std::fs::create_dir(base.join("real")).unwrap();
    write("real/second", "e");
    f.until(|f| !f.has("e")).await;
    write("real/second", "f");
    f.until(|f| !f.has("f")).await;
}

/// What no event tells: from another machine, or of a file that is mounted over this one.
#[tokio::test]
async fn a_file_of_which_no_event_tells_is_looked_at() {
    let directory = tempfile::tempdir().unwrap();
    let (path, elsewhere) = (directory.path().join("list"), tempfile::tempdir().unwrap());
    let other = elsewhere.path().join("other");
    std::fs::write(&other, "a\n").unwrap();
    // Another name of the same file: a write by one causes no event in the directory of the other.
    std::fs::hard_link(&other, &path).unwrap();
    let hour = SignedDuration::from_secs(3600);
    let params = Params {
        provider_file: path.display().to_string(),
        refresh_interval: hour,
        ttl: hour,
        blacklist: true,
        ..Params::default()
    };
    let f = Fixture::new(params).await;
    assert!(!f.has("a"));
    std::fs::write(&other, "b\n").unwrap();
    f.until(|f| !f.has("b")).await;
}
