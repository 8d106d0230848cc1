//! The script that times the start.

use crate::repository;
use crate::support::{DEADLINE, envoy, free_port, run};

#[test]
fn the_start_from_what_the_image_holds_is_timed() {
    let mut environment = vec![
        ("MIXER".to_owned(), env!("CARGO_BIN_EXE_mixer").to_owned()),
        ("ENVOY".to_owned(), envoy::program().display().to_string()),
        ("RUNS".to_owned(), "1".to_owned()),
    ];
    let ports =
        ["ENVOY_PORT", "ADMIN_PORT", "UPSTREAM_PORT", "MIXER_PORT", "MONITORING_PORT", "METRICS_PORT"];
    environment.extend(ports.map(|name| (name.to_owned(), free_port().to_string())));
    let script = repository("examples/envoy/time.sh");
    let finished = run(&script, &["image".to_owned()], &environment, None, None, DEADLINE).expect("it ends");
    assert_eq!(finished.status, 0, "{}{}", finished.stdout, finished.stderr);
    let seconds = |what: &str| {
        let line = finished.stdout.lines().find_map(|line| line.strip_suffix(what));
        let text = line.unwrap_or_else(|| panic!("{what}: {}", finished.stdout)).trim();
        text.strip_suffix('s').and_then(|text| text.trim().parse::<f64>().ok()).expect("seconds")
    };
    let check = seconds("from the start of the server to the first answered check");
    assert!(
        check > 0.0
            && check < seconds("from the start of the server to the first request that Envoy refuses")
    );
    let unknown = run(&script, &["moon".to_owned()], &environment, None, None, DEADLINE).expect("it ends");
    assert_eq!((unknown.status, &*unknown.stderr), (2, "`moon` is neither clone nor image\n"));
}
