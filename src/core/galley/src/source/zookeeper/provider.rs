//! Providers of a Dubbo registry, and the services that they are. Spec: galley.md, "Zookeeper source".

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use percent_encoding::percent_decode_str;

use crate::source::registered::{RegisteredService, ServiceEndpoint, ServicePort, resource_name};

/// Parameters of a provider that are labels of its endpoint.
const LABELS: [&str; 7] = ["application", "group", "methods", "revision", "side", "version", "weight"];
/// Most characters of a label.
const MAX_LABEL: usize = 63;
/// Most characters of a name of a node that a message shows.
const MAX_SHOWN: usize = 120;

/// An instance of a service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Provider {
    address: String,
    port: u16,
    labels: BTreeMap<String, String>,
}

/// The services that the providers of an interface are, and what is wrong with the names of their nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Services {
    /// By a text that no service of another node has: the key of the service, after the name of the node if that is encoded.
    pub(super) by_key: BTreeMap<String, RegisteredService>,
    pub(super) problems: Vec<String>,
}

/// Reads the names of the nodes below `ROOT/SERVICE/providers`. `service` is the name of the node of the service.
pub(super) fn services(service: &str, nodes: &[String]) -> Services {
    let interface = decoded(service);
    let mut found: BTreeMap<String, BTreeSet<Provider>> = BTreeMap::new();
    let mut problems = Vec::new();
    for node in nodes {
        match provider(node) {
            Ok((suffix, provider)) => {
                found.entry(format!("{interface}{suffix}")).or_default().insert(provider);
            }
            Err(why) => problems.push(format!("provider `{}`: {why}", shown(node))),
        }
    }
    let of_node = if interface == service { String::new() } else { format!("{service} ") };
    let service = |(key, providers): (String, BTreeSet<Provider>)| {
        let service = of_providers(&key, &providers);
        (format!("{of_node}{key}"), service)
    };
    Services { by_key: found.into_iter().map(service).collect(), problems }
}

fn of_providers(key: &str, providers: &BTreeSet<Provider>) -> RegisteredService {
    let name = |port: u16| format!("dubbo-{port}");
    let ports: BTreeSet<u16> = providers.iter().map(|provider| provider.port).collect();
    let endpoint = |provider: &Provider| ServiceEndpoint {
        address: provider.address.clone(),
        ports: [(name(provider.port), provider.port)].into(),
        labels: provider.labels.clone(),
    };
    RegisteredService {
        name: resource_name(key),
        host: key.to_owned(),
        resolution: "STATIC",
        ports: ports
            .into_iter()
            .map(|number| ServicePort { number, name: name(number), protocol: "tcp" })
            .collect(),
        endpoints: providers.iter().map(endpoint).collect(),
    }
}

/// What `java.net.URLEncoder` encoded.
fn decoded(name: &str) -> String {
    percent_decode_str(&name.replace('+', " ")).decode_utf8_lossy().into_owned()
}

/// A provider, and what the key of its service has after the interface. Errors: the node is none.
fn provider(node: &str) -> Result<(String, Provider), String> {
    let url = decoded(node);
    let Some(rest) = url.strip_prefix("dubbo://") else {
        return Err("it is no URL of the protocol dubbo, `dubbo://IP:PORT/INTERFACE?…`".to_owned());
    };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = place.split('/').next().unwrap_or_default();
    let authority = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
    let (host, port) = authority.rsplit_once(':').ok_or("it has no port")?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let address: IpAddr = host.parse().map_err(|_| format!("`{host}` is no IP address"))?;
    let number = port.parse::<u16>().ok().filter(|number| *number > 0);
    let port = number.ok_or_else(|| format!("`{port}` is no port from 1 to 65535"))?;
    // Dubbo writes values as they are.
    let parameters = query.split('&').filter_map(|parameter| parameter.split_once('='));
    let parameters: BTreeMap<&str, &str> = parameters.filter(|(_, value)| !value.is_empty()).collect();
    let suffix = |name: &str| parameters.get(name).map(|value| format!(":{value}")).unwrap_or_default();
    let label = |name: &str| {
        let value = *parameters.get(name)?;
        let value = match name {
            "methods" => sorted(value),
            _ => value.to_owned(),
        };
        Some((name.to_owned(), label(&value)))
    };
    let labels = LABELS.iter().filter_map(|name| label(name)).collect();
    let suffix = format!("{}{}", suffix("group"), suffix("version"));
    Ok((suffix, Provider { address: address.to_string(), port, labels }))
}

/// A list with commas, in order.
fn sorted(list: &str) -> String {
    let mut items: Vec<&str> = list.split(',').collect();
    items.sort_unstable();
    items.join(",")
}

/// A value as labels have it.
fn label(value: &str) -> String {
    let character = |c: char| if matches!(c, ',' | ':') { '_' } else { c };
    value.chars().take(MAX_LABEL).map(character).collect()
}

/// The name of a node in a message. Parameters may be secret.
fn shown(node: &str) -> String {
    let url = decoded(node);
    let place = url.split('?').next().unwrap_or_default();
    let place = match place.split_once("://") {
        Some((scheme, rest)) => {
            format!("{scheme}://{}", rest.rsplit_once('@').map_or(rest, |(_, place)| place))
        }
        None => place.to_owned(),
    };
    let mut shown: String =
        place.chars().take(MAX_SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if place.chars().nth(MAX_SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(url: &str) -> String {
        percent_encoding::utf8_percent_encode(url, percent_encoding::NON_ALPHANUMERIC).to_string()
    }

    fn of(urls: &[&str]) -> Services {
        let nodes: Vec<String> = urls.iter().map(|url| encoded(url)).collect();
        services("org.foo.Bar", &nodes)
    }

    #[test]
    fn providers_are_the_endpoints_of_their_service() {
        let found = of(&[
            "dubbo://10.0.0.2:20881/org.foo.Bar?application=shop&methods=sell,buy&side=provider&timestamp=7",
            "dubbo://10.0.0.10:20880/org.foo.Bar?application=shop&timestamp=1&token=hunter2",
            "dubbo://10.0.0.10:20880/org.foo.Bar?application=shop&timestamp=2",
            "dubbo://[fd00::1]:20880/org.foo.Bar?group=g&version=1.0&revision=",
            "dubbo://user:secret@10.0.0.9:20880/org.foo.Bar?version=1.0",
        ]);
        assert!(found.problems.is_empty(), "{:?}", found.problems);
        let keys: Vec<&String> = found.by_key.keys().collect();
        assert_eq!(keys, ["org.foo.Bar", "org.foo.Bar:1.0", "org.foo.Bar:g:1.0"]);
        let bar = &found.by_key["org.foo.Bar"];
        assert_eq!((&*bar.name, &*bar.host, bar.resolution), ("org.foo.bar", "org.foo.Bar", "STATIC"));
        let ports: Vec<_> = bar.ports.iter().map(|port| (port.number, &*port.name, port.protocol)).collect();
        assert_eq!(ports, [(20880, "dubbo-20880", "tcp"), (20881, "dubbo-20881", "tcp")]);
        let endpoints: Vec<_> =
            bar.endpoints.iter().map(|endpoint| (&*endpoint.address, &endpoint.ports)).collect();
        assert_eq!(endpoints.len(), 2, "registrations of one instance are one endpoint");
        assert_eq!(endpoints[0], ("10.0.0.10", &[("dubbo-20880".to_owned(), 20880)].into()));
        let labels: Vec<_> =
            bar.endpoints[1].labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(labels, ["application=shop", "methods=buy_sell", "side=provider"]);
        let grouped = &found.by_key["org.foo.Bar:g:1.0"];
        assert_eq!((&*grouped.name, &*grouped.endpoints[0].address), ("org.foo.bar-g-1.0", "fd00::1"));
        assert!(!format!("{found:?}").contains("secret") && !format!("{found:?}").contains("hunter2"));
    }

    #[test]
    fn what_is_no_provider_is_told_without_its_parameters() {
        for (url, why) in [
            ("10.0.0.1:20880", "no URL of the protocol dubbo"),
            ("tri://10.0.0.1:20880/a?token=hunter2", "no URL of the protocol dubbo"),
            ("dubbo://10.0.0.1/a?token=hunter2", "it has no port"),
            ("dubbo://host:20880/a", "`host` is no IP address"),
            ("dubbo://10.0.0.1:0/a", "`0` is no port"),
            ("dubbo://10.0.0.1:65536/a", "`65536` is no port"),
            ("dubbo://user:hunter2@10.0.0.1:x/a", "`x` is no port"),
            ("", "no URL"),
        ] {
            let found = of(&[url]);
            let [problem] = &found.problems[..] else { panic!("{url}: {found:?}") };
            assert!(problem.contains(why) && !problem.contains("hunter2"), "{problem}");
            assert!(found.by_key.is_empty(), "{url}");
        }
        let long = of(&[&"x".repeat(100_000)]);
        assert!(long.problems[0].len() < 300, "{}", long.problems[0].len());
        assert_eq!(services("s", &["%ff%00".to_owned()]).problems.len(), 1);
    }

    #[test]
    fn labels_are_short_and_without_separators() {
        let url = format!("dubbo://10.0.0.1:1/a?application={}&version=a:b,c", "é".repeat(80));
        let found = of(&[&url]);
        let labels = &found.by_key["org.foo.Bar:a:b,c"].endpoints[0].labels;
        assert_eq!(labels["application"].chars().count(), 63);
        assert_eq!(labels["version"], "a_b_c");
    }
}
