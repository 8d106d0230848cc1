//! What is gone, and was not deleted.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_to_look_deletes_nothing_that_is_missing_for_a_moment() {
    type Away = fn(&Path, &Path);
    let renamed: Away = |file, away| std::fs::rename(file, away).unwrap();
    let emptied: Away = |file, away| {
        std::fs::copy(file, away).unwrap();
        std::fs::write(file, "").unwrap();
    };
    for (what, take_away) in [("renamed", renamed), ("emptied", emptied)] {
        let scene = Scene::new(&[("rule.yaml", RULE), ("gateway.yaml", GATEWAY)], true);
        scene.galley.synced().await;
        let (file, away) =
            (scene.directory.path().join("rule.yaml"), scene.directory.path().join("rule.bak"));
        take_away(&file, &away);
        scene.galley.reload();
        // Less than what is gone is waited for.
        let end = Instant::now() + Duration::from_millis(500);
        while Instant::now() < end {
            assert_eq!(scene.rules().len(), 1, "{what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        std::fs::rename(&away, &file).unwrap();
        scene.write("rule.yaml", &RULE.replace("eve", "ann"));
        scene.until(what, |scene| scene.rules() == ["shop/deny source.user == \"ann\""]).await;
        scene.galley.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_gets_a_name_that_is_not_read_deletes_nothing() {
    let scene = Scene::new(&[("rule.yaml", RULE), ("gateway.yaml", GATEWAY)], true);
    scene.galley.synced().await;
    let path = |name: &str| scene.directory.path().join(name);
    std::fs::rename(path("rule.yaml"), path("rule.YAML")).unwrap();
    scene
        .until("it is held", |scene| scene.why().contains("rule.YAML is not read, and has what is gone"))
        .await;
    assert_eq!(scene.rules().len(), 1);
    std::fs::rename(path("rule.YAML"), path("other.yaml")).unwrap();
    scene.until("it is there again", |scene| scene.why().is_empty()).await;
    assert_eq!(scene.rules().len(), 1);
    // A copy of a file that is read keeps nothing.
    std::fs::write(path("other.yaml.txt"), RULE).unwrap();
    scene.write("other.yaml", GATEWAY);
    scene.until("the rule is deleted", |scene| scene.rules().is_empty()).await;
    scene.galley.stop().await;
}
