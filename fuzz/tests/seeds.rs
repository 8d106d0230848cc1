//! Replays every seed of every target.

use std::path::Path;

#[test]
fn seeds_hold_every_property() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    for (name, target) in mixer_fuzz::TARGETS {
        target(&[]);
        let mut count = 0;
        for entry in std::fs::read_dir(root.join(name)).unwrap_or_else(|e| panic!("seeds of {name}: {e}")) {
            let path = entry.unwrap().path();
            let data = std::fs::read(&path).unwrap();
            let outcome = std::panic::catch_unwind(|| target(&data));
            assert!(outcome.is_ok(), "seed {} of target {name}", path.display());
            count += 1;
        }
        assert!(count > 0, "target {name} has no seeds");
    }
}
