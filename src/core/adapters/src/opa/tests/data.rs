//! Data files that lost what the policy reads.

use super::*;

struct Stage {
    directory: tempfile::TempDir,
    handler: Box<dyn Handler>,
    env: Env,
}

const POLICY: &str = "package gate
default open := false
open if not deny
deny if input.subject.user in data.lists.blocked
deny if data.closed == true
";
const GOOD: &str = r#"{"lists": {"blocked": ["eve"]}, "closed": false}"#;

fn of_file(path: &std::path::Path) -> Params {
    Params { data_files: vec![path.display().to_string()], fail_close: true, ..params(POLICY) }
}

impl Stage {
    async fn new(name: &str, change: impl FnOnce(Params) -> Params) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        std::fs::write(&path, GOOD).unwrap();
        let env = test_env("h.istio-system");
        let handler = Opa::build(change(of_file(&path)), vec![bound()], env.clone()).await.unwrap();
        Self { directory, handler, env }
    }

    fn put(&self, name: &str, text: &str) {
        let new = self.directory.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.directory.path().join(name)).unwrap();
    }

    async fn until(&self, what: &str, holds: impl Fn(Option<String>) -> bool) {
        for _ in 0..2000 {
            if holds(self.handler.degradation()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{what}: not within 20 s; {:?}", self.handler.degradation());
    }

    async fn code(&self, user: &str) -> i32 {
        check(&*self.handler, [user, "GET", "/"]).await.unwrap().status.code
    }
}

#[tokio::test]
async fn data_that_lost_what_the_policy_reads_changes_nothing() {
    let stage = Stage::new("data.json", |params| params).await;
    assert_eq!([stage.code("ann").await, stage.code("eve").await], [0, 7]);
    let rows = [
        ("{}", "the data has no `closed`, which the policy reads (opa_policy.0:5:9)"),
        (r#"{"error": "not found"}"#, "the data has no `closed`"),
        (r#"{"closed": false, "lists": {}}"#, "the data has no `lists.blocked`"),
        (r#"{"closed": false, "lists": {"blokced": ["eve"]}}"#, "the data has no `lists.blocked`"),
        (r#"{"closed": false, "lists": null}"#, "the data has no `lists.blocked`"),
        (r#"{"closed": false, "lists": {"blocked": null}}"#, "`lists.blocked` is null in the data"),
        (r#"{"closed": false, "lists": {"blocked": "eve"}}"#, "`lists.blocked` is a text in the data"),
        (
            r#"{"closed": false, "lists": {"blocked": {"users": ["eve"]}}}"#,
            "`lists.blocked` is an object in the data and was a list",
        ),
        (
            r#"{"closed": "no", "lists": {"blocked": ["eve"]}}"#,
            "`closed` is a text in the data and was a boolean",
        ),
        (
            r#"{"closed": false, "lists": {"blocked": ["eve"], "blocked": ["bob"]}}"#,
            "the key `blocked` is there twice",
        ),
    ];
    for (text, wanted) in rows {
        stage.put("data.json", text);
        stage.until(text, |why| why.is_some_and(|why| why.contains(wanted))).await;
        assert_eq!([stage.code("ann").await, stage.code("eve").await], [0, 7], "{text}");
        stage.put("data.json", GOOD);
        stage.until(GOOD, |why| why.is_none()).await;
    }
    // Empty is a list, too.
    stage.put("data.json", r#"{"closed": false, "lists": {"blocked": []}, "more": null}"#);
    for _ in 0..2000 {
        if stage.code("eve").await == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!((stage.code("eve").await, stage.handler.degradation()), (0, None));
    stage.env.tasks.shut_down().await;
}

#[tokio::test]
async fn a_first_version_has_what_the_policy_reads() {
    let directory = tempfile::tempdir().unwrap();
    let rows = [
        ("a.json", "{}", "the data has no `closed`"),
        (
            "a.json",
            r#"{"closed": false, "lists": {"blocked": "eve"}}"#,
            "is a text in the data, and the policy looks into it",
        ),
        (
            "a.json",
            r#"{"closed": false, "closed": true, "lists": {"blocked": []}}"#,
            "the key `closed` is there twice",
        ),
        ("a.yaml", "closed: false\nclosed: true\nlists: {blocked: []}\n", "the key `closed` is there twice"),
        (
            "a.yaml",
            "base: &b {blocked: [eve]}\nclosed: false\nlists:\n  blocked: [mallory]\n  <<: *b\n",
            "the key `blocked` in line 4 has another value in the merge key `<<` after it",
        ),
        (
            "a.yaml",
            "closed: false\nlists: {blocked: [eve]}\n---\nlists: {blocked: [mallory]}\n",
            "it has several documents: that in line 3 would be ignored",
        ),
        ("a.json", r#"{"closed": false, "lists": {"blocked": ["eve"]}} {}"#, "could not read data"),
    ];
    for (name, text, wanted) in rows {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        let refused = Opa::build(of_file(&path), vec![bound()], test_env("h.ns")).await.err();
        assert!(refused.as_ref().is_some_and(|why| why.to_string().contains(wanted)), "{text}: {refused:?}");
    }
    // What a test in the policy replaces is read by the rules.
    let path = directory.path().join("a.json");
    std::fs::write(&path, r#"{"error": "not found"}"#).unwrap();
    let tested =
        format!("{POLICY}test_nobody if {{ open with data.lists as {{}} with data.closed as false }}\n");
    let tested = Params { policy: vec![tested], ..of_file(&path) };
    let refused = Opa::build(tested, vec![bound()], test_env("h.ns")).await.err().unwrap().to_string();
    assert!(refused.contains("the data has no `closed`"), "{refused}");
    // Keys behind `<<` replace its own, and the first document may have a mark.
    let path = directory.path().join("a.yaml");
    let merged = "---\nbase: &b {blocked: [eve]}\nclosed: false\nlists: {<<: *b, blocked: [mallory]}\n";
    std::fs::write(&path, merged).unwrap();
    let handler = Opa::build(of_file(&path), vec![bound()], test_env("h.ns")).await.unwrap();
    assert_eq!(check(&*handler, ["mallory", "GET", "/"]).await.unwrap().status.code, 7);
}
