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
