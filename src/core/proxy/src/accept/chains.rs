//! Which filter chain takes a connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use super::Chain;
use crate::bootstrap::{ChainMatch, Range, SourceType};
use crate::connection_info::ConnectionInfo;

/// The filter chain of a connection. The criteria are looked at one after the other, as Envoy does: the most specific value of each that
/// takes the connection decides, and what is found below it is not given up for a less specific one.
pub(super) fn find<'c>(chains: &'c [Arc<Chain>], info: &ConnectionInfo) -> Option<&'c Chain> {
    let found = choose(chains.iter().map(|chain| &chain.matching), info)?;
    chains.get(found).map(|chain| &**chain)
}

/// How specifically a criterion takes a connection; `None` if it does not.
type Criterion = fn(&ChainMatch, &ConnectionInfo) -> Option<usize>;

const CRITERIA: [Criterion; 9] = [
    |matching, info| match matching.destination_port {
        Some(port) => (port == info.local.port()).then_some(1),
        None => Some(0),
    },
    |matching, info| in_ranges(&matching.destinations, info.local.ip()),
    |matching, info| server_name(&matching.server_names, &info.server_name),
    |matching, info| {
        let transport = if info.transport.is_empty() { "raw_buffer" } else { info.transport };
        match matching.transport.as_str() {
            "" => Some(0),
            wanted => (wanted == transport).then_some(1),
        }
    },
    |matching, info| {
        if matching.protocols.is_empty() {
            return Some(0);
        }
        // The first that the client offers comes first.
        let place = info.protocols.iter().position(|offered| matching.protocols.contains(offered))?;
        Some(info.protocols.len() - place)
    },
    |matching, info| in_ranges(&matching.direct_sources, info.direct_remote.ip()),
    |matching, info| {
        let is_local = is_local(info);
        match matching.source_type {
            SourceType::Any => Some(0),
            SourceType::Local => is_local.then_some(1),
            SourceType::External => (!is_local).then_some(1),
        }
    },
    |matching, info| in_ranges(&matching.sources, info.remote.ip()),
    |matching, info| match matching.source_ports.is_empty() {
        true => Some(0),
        false => matching.source_ports.contains(&info.remote.port()).then_some(1),
    },
];

/// Whether a client is of this machine, as Envoy sees it: it comes from the address that it went to, or from the one of loopback. Others of
/// 127.0.0.0/8 are not local, nor is a loopback address of IPv4 that the PROXY protocol writes as one of IPv6.
fn is_local(info: &ConnectionInfo) -> bool {
    let remote = info.remote.ip();
    remote == info.local.ip() || remote == Ipv4Addr::LOCALHOST || remote == Ipv6Addr::LOCALHOST
}

fn choose<'m>(matches: impl Iterator<Item = &'m ChainMatch>, info: &ConnectionInfo) -> Option<usize> {
    let mut left: Vec<(usize, &ChainMatch)> = matches.enumerate().collect();
    for criterion in CRITERIA {
        let best = left.iter().filter_map(|(_, matching)| criterion(matching, info)).max()?;
        left.retain(|(_, matching)| criterion(matching, info) == Some(best));
    }
    left.first().map(|(index, _)| *index)
}

/// The length of the longest range with an address; none at all is as one of everything.
fn in_ranges(ranges: &[Range], address: IpAddr) -> Option<usize> {
    if ranges.is_empty() {
        return Some(0);
    }
    ranges.iter().filter_map(|range| range.takes(address)).max().map(usize::from)
}

/// The length of the longest name that takes a server name; a whole one beats all others.
fn server_name(names: &[String], wanted: &str) -> Option<usize> {
    if names.is_empty() {
        return Some(0);
    }
    let takes = |name: &String| match name.strip_prefix('.') {
        None => (name == wanted && !wanted.is_empty()).then_some(usize::MAX),
        Some(_) => (wanted.len() > name.len() && wanted.ends_with(name.as_str())).then_some(name.len()),
    };
    names.iter().filter_map(takes).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(name: &str, protocols: &[&str]) -> ConnectionInfo {
        let mut info = ConnectionInfo::new(([10, 1, 2, 3], 5000).into(), ([192, 0, 2, 1], 443).into());
        info.server_name = name.to_owned();
        info.protocols = protocols.iter().map(|protocol| (*protocol).to_owned()).collect();
        info.transport = if name.is_empty() { "" } else { "tls" };
        info
    }

    fn range(text: &str, length: u32) -> Range {
        Range::new(text.parse().unwrap(), length)
    }

    fn names(names: &[&str]) -> ChainMatch {
        ChainMatch {
            server_names: names.iter().map(|name| (*name).to_owned()).collect(),
            ..ChainMatch::default()
        }
    }

    #[test]
    fn the_most_specific_name_wins() {
        let chains = [
            names(&[]),
            names(&[".example.com"]),
            names(&["a.example.com", "b.example.com"]),
            names(&[".com"]),
        ];
        for (name, expected) in [
            ("a.example.com", 2),
            ("b.example.com", 2),
            ("c.example.com", 1),
            ("example.com", 3),
            ("x.c.example.com", 1),
            ("com", 0),
            ("", 0),
        ] {
            assert_eq!(choose(chains.iter(), &info(name, &[])), Some(expected), "{name}");
        }
        assert_eq!(choose(chains[1..].iter(), &info("other.org", &[])), None);
    }

    #[test]
    fn an_earlier_criterion_is_not_given_up_for_a_later_one() {
        let port = ChainMatch { destination_port: Some(443), ..names(&["other"]) };
        let any = names(&["a"]);
        assert_eq!(choose([&port, &any].into_iter(), &info("a", &[])), None, "the port was found");
        let near = ChainMatch { destinations: vec![range("192.0.2.0", 24)], ..ChainMatch::default() };
        let nearer = ChainMatch {
            destinations: vec![range("192.0.2.0", 28), range("10.0.0.0", 8)],
            ..ChainMatch::default()
        };
        assert_eq!(choose([&near, &nearer].into_iter(), &info("", &[])), Some(1));
    }

    #[test]
    fn one_address_of_loopback_is_local() {
        for (remote, local, is) in [
            ("127.0.0.1", "192.0.2.1", true),
            ("127.0.0.2", "127.0.0.1", false),
            ("127.0.0.2", "127.0.0.2", true),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("::1", "2001:db8::1", true),
            ("::ffff:127.0.0.1", "2001:db8::1", false),
            ("::ffff:127.0.0.1", "127.0.0.1", false),
            ("2001:db8::1", "2001:db8:0::1", true),
        ] {
            let address = |text: &str| std::net::SocketAddr::new(text.parse().unwrap(), 1);
            let info = ConnectionInfo::new(address(remote), address(local));
            assert_eq!(is_local(&info), is, "{remote} {local}");
        }
    }

    #[test]
    fn every_criterion_decides() {
        let cases: [(ChainMatch, bool); 9] = [
            (ChainMatch { transport: "tls".to_owned(), ..ChainMatch::default() }, true),
            (ChainMatch { transport: "raw_buffer".to_owned(), ..ChainMatch::default() }, false),
            (ChainMatch { direct_sources: vec![range("10.0.0.0", 8)], ..ChainMatch::default() }, true),
            (ChainMatch { direct_sources: vec![range("11.0.0.0", 8)], ..ChainMatch::default() }, false),
            (ChainMatch { source_type: SourceType::External, ..ChainMatch::default() }, true),
            (ChainMatch { source_type: SourceType::Local, ..ChainMatch::default() }, false),
            (ChainMatch { sources: vec![range("10.1.2.3", 32)], ..ChainMatch::default() }, true),
            (ChainMatch { source_ports: vec![4999, 5000], ..ChainMatch::default() }, true),
            (ChainMatch { source_ports: vec![4999], ..ChainMatch::default() }, false),
        ];
        for (matching, takes) in cases {
            let found = choose([&ChainMatch::default(), &matching].into_iter(), &info("a", &[]));
            assert_eq!(found, Some(usize::from(takes)), "{matching:?}");
        }
        let protocol = |name: &str| ChainMatch { protocols: vec![name.to_owned()], ..ChainMatch::default() };
        let chains = [protocol("http/1.1"), protocol("h2"), ChainMatch::default()];
        assert_eq!(
            choose(chains.iter(), &info("a", &["h2", "http/1.1"])),
            Some(1),
            "the first that is offered"
        );
        assert_eq!(choose(chains.iter(), &info("a", &["x", "http/1.1"])), Some(0));
        assert_eq!(choose(chains.iter(), &info("a", &[])), Some(2));
    }
}
