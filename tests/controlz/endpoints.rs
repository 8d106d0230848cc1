//! Status, content type and security headers of every endpoint.

use crate::stage::Stage;
use crate::support::{HttpAnswer, http};

/// Every page of the navigation.
pub(crate) const PAGES: &[&str] = &[
    "/",
    "/callz/",
    "/latencyz/",
    "/denialz/",
    "/callerz/",
    "/poolz/",
    "/configz/",
    "/historyz/",
    "/rulez/",
    "/routesz/",
    "/explainz/",
    "/handlerz/",
    "/quotaz/",
    "/cachez/",
    "/scopez/",
    "/deliveryz/",
    "/taskz/",
    "/memz/",
    "/envz/",
    "/procz/",
    "/argz/",
    "/versionz/",
    "/metricz/",
    "/signalz/",
];

/// Every JSON document.
const DOCUMENTS: &[&str] = &[
    "/homej/",
    "/scopej/",
    "/scopej/api",
    "/memj/",
    "/envj/",
    "/procj/",
    "/argj/",
    "/versionj/",
    "/metricj/",
    "/snapshotj/",
    "/routesj/",
    "/diagnosticsj/",
    "/historyj/",
    "/handlerj/",
    "/quotaj/",
    "/cachej/",
    "/callerj/",
    "/poolj/",
    "/deliveryj/",
    "/taskj/",
    "/denialj/",
    "/denialgroupj/",
    "/rulej/",
    "/callj/",
    "/latencyj/",
    "/unlimitedj/",
];

fn header<'a>(answer: &'a HttpAnswer, name: &str) -> &'a str {
    answer.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str())
}

#[test]
fn every_endpoint_answers() {
    let stage = Stage::new(&[]);
    let get = |url: &str| http("GET", url, "").unwrap();
    for path in PAGES {
        let answer = get(&stage.url(path));
        assert_eq!(
            (answer.status, header(&answer, "content-type")),
            (200, "text/html; charset=utf-8"),
            "{path}"
        );
        assert!(header(&answer, "content-security-policy").contains("default-src 'none'"), "{path}");
        if *path != "/" {
            let bare = get(&stage.url(path.trim_end_matches('/')));
            let is_scopes = *path == "/scopez/";
            assert_eq!(bare.status, if is_scopes { 200 } else { 301 }, "{path} without its slash");
        }
    }
    for path in DOCUMENTS {
        let answer = get(&stage.url(path));
        assert_eq!(
            (answer.status, header(&answer, "content-type")),
            (200, "application/json; charset=utf-8"),
            "{path}"
        );
        let document: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert!(document.is_object() || document.is_array(), "{path}");
    }
    assert_eq!(get(&stage.url("/nosuch/")).status, 404);
    assert_eq!(http("POST", &stage.url("/homej/exit"), "").unwrap().status, 405);
    assert_eq!(http("PUT", &stage.url("/memj/forcecollection"), "").unwrap().status, 202);
    assert_eq!(http("PUT", &stage.url("/signalj/SIGUSR1"), "").unwrap().status, 202);

    let monitored = |path: &str| get(&format!("http://127.0.0.1:{}{path}", stage.server.ports.monitoring));
    for path in ["/metrics", "/version", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/symbol"] {
        assert_eq!(monitored(path).status, 200, "{path}");
    }
    assert!(monitored("/debug/pprof/cmdline").body.contains("--numCheckCacheEntries=1000"));
    assert_eq!(monitored("/debug/pprof/mutex").status, 501);
    let expected = if cfg!(feature = "profiling") { 400 } else { 501 };
    assert_eq!(monitored("/debug/pprof/profile?seconds=0").status, expected);
}
