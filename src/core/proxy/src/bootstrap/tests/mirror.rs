//! Copies of requests.

use super::*;

fn policies(text: &str) -> String {
    with_routes(&format!(
        "              - match: {{prefix: /}}\n                route: {{cluster: c, request_mirror_policies: [{text}]}}"
    ))
}

#[test]
fn policies_are_read_at_all_levels() {
    let all = "{cluster: c}, {cluster_header: X-To, disable_shadow_host_suffix_append: true, traceSampled: false}, {cluster: c, runtime_fraction: {runtime_key: k, default_value: {numerator: 7, denominator: TEN_THOUSAND}}}, {cluster: c, runtime_fraction: {default_value: {}}}, {cluster: c, runtime_fraction: {default_value: {numerator: 4294967295}}}";
    let (bootstrap, warnings) = read(&policies(all), "b.yaml").unwrap();
    assert_eq!(warnings, []);
    let NetworkFilter::Http(manager) = &bootstrap.listeners[0].chains[0].filter else {
        panic!("an HTTP listener")
    };
    let Action::Route(action) = &manager.routes.hosts[0].routes[0].action else { panic!("a route") };
    let of = |cluster, fraction, marks_host| MirrorConfig { cluster, fraction, marks_host };
    let c = || MirrorCluster::Name("c".to_owned());
    let expected = [
        of(c(), 1_000_000, true),
        of(MirrorCluster::Header("x-to".to_owned()), 1_000_000, false),
        of(c(), 700, true),
        of(c(), 0, true),
        of(c(), u32::MAX, true),
    ];
    assert_eq!(action.mirrors, expected);
    let levels = with_routes("              - {match: {prefix: /}, route: {cluster: c}}")
        .replace(
            "            name: r\n",
            "            name: r\n            request_mirror_policies: [{cluster: c}]\n",
        )
        .replace(
            "              routes:\n",
            "              request_mirror_policies: [{cluster: c}, {cluster: c}]\n              routes:\n",
        );
    let (bootstrap, _) = read(&levels, "b.yaml").unwrap();
    let NetworkFilter::Http(manager) = &bootstrap.listeners[0].chains[0].filter else {
        panic!("an HTTP listener")
    };
    assert_eq!((manager.routes.mirrors.len(), manager.routes.hosts[0].mirrors.len()), (1, 2));
}

#[test]
fn policies_that_are_not_valid_or_not_supported_are_refused_by_path_and_line() {
    let place = "static_resources.listeners[0].filter_chains[0].filters[0].typed_config.route_config.virtual_hosts[0].routes[0].route.request_mirror_policies[0]";
    for (policy, code, field, message) in [
        (
            "{}",
            "proxy-invalid",
            "",
            "Exactly one of cluster or cluster_header in request mirror policy need to be specified",
        ),
        ("{cluster: ''}", "proxy-invalid", "", "Exactly one of cluster or cluster_header"),
        (
            "{cluster: c, cluster_header: x}",
            "proxy-invalid",
            ".cluster_header",
            "Only one of cluster 'c' or cluster_header 'x' in request mirror policy can be specified",
        ),
        ("{cluster_header: 'a b'}", "proxy-invalid", ".cluster_header", "`a b` is not the name of a header"),
        (
            "{cluster: c, host_rewrite_literal: x}",
            "proxy-unsupported",
            ".host_rewrite_literal",
            "is not supported",
        ),
        (
            "{cluster: c, requestHeadersMutations: []}",
            "proxy-unsupported",
            ".request_headers_mutations",
            "is not supported",
        ),
        (
            "{cluster: c, runtime_fraction: {}}",
            "proxy-invalid",
            ".runtime_fraction",
            "RuntimeFractionalPercentValidationError.DefaultValue: value is required",
        ),
        (
            "{cluster: c, runtime_fraction: {default_value: {numerator: 1, denominator: BILLION}}}",
            "proxy-invalid",
            ".runtime_fraction.default_value.denominator",
            "unknown enum value: 'BILLION'",
        ),
        (
            "{cluster: c, fraction: 1}",
            "proxy-unknown-field",
            ".fraction",
            "no such field: 'fraction' in RequestMirrorPolicy",
        ),
    ] {
        assert_problem(&policies(policy), code, 21, &format!("{place}{field}"), message);
    }
    let found = problem(&policies("{cluster: nobody}"));
    assert!(found.3.contains("route: unknown shadow cluster 'nobody'"), "{}", found.3);
}
