//! Quotas of several servers over one Redis: what they grant together, exactly.

use crate::adapter_examples::{MANIFEST, redis};
use crate::signals::{configuration, on};
use crate::support::bag::{Attribute, Attributes, Words, encode_alone};
use crate::support::rpc::{Client, mixer as wire};
use crate::support::{Server, free_port};

/// Calls of quotas, and what they may have in all.
const CALLS: usize = 100_000;
const LIMIT: usize = 60_000;
/// Calls of the API that a server gets at once.
const AT_ONCE: usize = 8;
const SERVERS: usize = 3;

/// Quotas `q0`, `q1`, … of one handler without leases, which divide the limit.
fn rules(port: u16, quotas: usize) -> String {
    let names: Vec<String> = (0..quotas).map(|quota| format!("q{quota}")).collect();
    let limit = LIMIT / quotas;
    let limits: Vec<String> = names
        .iter()
        .map(|name| format!("{{name: {name}.instance.istio-system, maxAmount: {limit}, validDuration: 24h}}"))
        .collect();
    let instance = |name: &String| {
        format!(
            "---\napiVersion: config.istio.io/v1alpha2\nkind: instance\nmetadata: {{name: {name}, namespace: istio-system}}\n\
             spec: {{compiledTemplate: quota, params: {{dimensions: {{user: source.user | \"\"}}}}}}\n"
        )
    };
    format!(
        "{MANIFEST}apiVersion: config.istio.io/v1alpha2\nkind: handler\nmetadata: {{name: limits, namespace: istio-system}}\n\
         spec:\n  compiledAdapter: redisquota\n  params: {{redisServerUrl: '127.0.0.1:{port}', timeout: 10s, quotas: [{}]}}\n\
         ---\napiVersion: config.istio.io/v1alpha2\nkind: rule\nmetadata: {{name: limits, namespace: istio-system}}\n\
         spec: {{actions: [{{handler: limits, instances: [{}]}}]}}\n{}",
        limits.join(", "),
        names.join(", "),
        names.iter().map(instance).collect::<String>()
    )
}

/// Makes calls of the API, each of all quotas: what was granted of each.
fn call(address: &str, calls: std::ops::Range<usize>, quotas: usize) -> Vec<usize> {
    let mut client = Client::new(address).expect("a client");
    let bag: Attributes =
        [("source.user".to_owned(), Attribute::Text("ann".to_owned()))].into_iter().collect();
    let wanted = wire::check_request::QuotaParams { amount: 1, best_effort: false };
    let mut request = wire::CheckRequest {
        attributes: Some(encode_alone(&bag, Words::of_message())),
        quotas: (0..quotas).map(|quota| (format!("q{quota}"), wanted)).collect(),
        ..Default::default()
    };
    let mut sums = vec![0; quotas];
    for number in calls {
        request.deduplication_id = format!("call{number}");
        let answer = client.check(&request, None).expect("an answer");
        for (quota, sum) in sums.iter_mut().enumerate() {
            *sum += usize::try_from(answer.quotas[&format!("q{quota}")].granted_amount).expect("no debt");
        }
    }
    sums
}

/// By default ten quotas in a call, which cost less than ten calls; `MIXER_QUOTAS=1` has a call for each.
#[test]
fn three_servers_with_one_redis_grant_exactly_the_limit_of_many_calls() {
    let quotas: usize = std::env::var("MIXER_QUOTAS").map_or(10, |text| text.parse().expect("a number"));
    let port = free_port();
    let _process = redis(port);
    let directory = configuration(&rules(port, quotas));
    let servers: Vec<Server> = (0..SERVERS).map(|_| on(&directory).native().start()).collect();
    let addresses: Vec<String> = servers.iter().map(Server::address).collect();
    let (clients, calls) = (SERVERS * AT_ONCE, CALLS / quotas);
    let begin = |client: usize| calls * client / clients;
    let mut granted = vec![0; quotas];
    std::thread::scope(|scope| {
        let tasks: Vec<_> = (0..clients)
            .map(|client| {
                let address = &addresses[client % SERVERS];
                let calls = begin(client)..begin(client + 1);
                scope.spawn(move || call(address, calls, quotas))
            })
            .collect();
        for task in tasks {
            let sums = task.join().expect("it calls");
            granted.iter_mut().zip(sums).for_each(|(all, sum)| *all += sum);
        }
    });
    assert_eq!(granted, vec![LIMIT / quotas; quotas], "exactly the limit, of each quota");
    // None of it from a lease, and every call is one of Redis.
    let answered = |server: &Server| {
        server.metric("mixer_redisquota_calls_total{answer=\"redis\",handler=\"limits.istio-system\"}")
    };
    assert_eq!(servers.iter().map(answered).sum::<f64>(), CALLS as f64);
}
