//! Route tables as they serve: virtual hosts by domain, routes in order, clusters by index.

use std::collections::HashMap;
use std::time::Duration;

use super::shadow::Mirror;
use crate::bootstrap::{
    Action, Edits, HashPolicy, HeaderMatch, HeaderTest, HttpFilterConfig, LimitConfig, MatchConfig,
    MirrorConfig, PathMatch, PerFilter, Redirect, RetryConfig, RouteFilter, RouteTableConfig, TextTest,
};
use crate::cluster::weighted;
use crate::head::Head;

/// A route table.
#[derive(Debug)]
pub(crate) struct RouteTable {
    exact: HashMap<String, usize>,
    /// What the domain ends with; the longest first.
    suffixes: Vec<(String, usize)>,
    /// What the domain begins with; the longest first.
    prefixes: Vec<(String, usize)>,
    any: Option<usize>,
    hosts: Vec<VirtualHost>,
    edits: Edits,
}

/// A virtual host.
#[derive(Debug)]
pub(crate) struct VirtualHost {
    edits: Edits,
    /// Its rate limits.
    pub(crate) limits: Vec<LimitConfig>,
    routes: Vec<Route>,
}

/// A route.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) name: String,
    pub(crate) matching: MatchConfig,
    pub(crate) target: Target,
    edits: Edits,
    /// What filters do with its requests, by their places.
    filters: Box<[Option<RouteFilter>]>,
}

/// What a route does.
#[derive(Debug)]
pub(crate) enum Target {
    Forward(Box<Forward>),
    Redirect(Redirect),
    Direct(u16, String),
}

/// Forwards.
#[derive(Debug)]
pub(crate) struct Forward {
    clusters: Vec<(Choice, u32)>,
    /// What filters do with the requests to each of them, if that is not what they do with others of the route.
    filters: Vec<Option<Box<[Option<RouteFilter>]>>>,
    /// Edits of the requests to each of them.
    edits: Vec<Edits>,
    pub(crate) not_found_status: u16,
    pub(crate) prefix_rewrite: Option<String>,
    pub(crate) host_rewrite: Option<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) retry: Option<RetryConfig>,
    /// Rate limits of the route, and whether those of the virtual host hold as well.
    pub(crate) limits: (Vec<LimitConfig>, bool),
    pub(crate) hash: Vec<(HashPolicy, bool)>,
    /// Protocols that connections may change to, or not, whatever the connection manager says.
    upgrades: Vec<(String, bool)>,
    /// Copies of its requests.
    pub(crate) mirrors: Vec<Mirror>,
}

/// The header edits of a request and its response: those of the cluster of several, of the route, of the virtual host and of the table.
pub(crate) type Levels<'t> = [&'t Edits; 4];

static NO_EDITS: Edits = Edits {
    add_request: Vec::new(),
    remove_request: Vec::new(),
    add_response: Vec::new(),
    remove_response: Vec::new(),
};

/// Nothing is edited.
pub(crate) const NO_LEVELS: Levels<'static> = [&NO_EDITS; 4];

/// A cluster of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Choice {
    place: usize,
    /// `None` if it does not exist.
    cluster: Option<usize>,
}

/// A route that a request takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found<'t> {
    pub(crate) host: &'t VirtualHost,
    pub(crate) route: &'t Route,
    table: &'t RouteTable,
    choice: Option<Choice>,
}

impl<'t> Found<'t> {
    /// The cluster that was chosen; `None` if it does not exist, or the route has none.
    pub(crate) fn cluster(&self) -> Option<usize> {
        self.choice?.cluster
    }

    /// The header edits of the request and its response.
    pub(crate) fn levels(&self) -> Levels<'t> {
        let of_cluster = match (&self.route.target, self.choice) {
            (Target::Forward(forward), Some(choice)) => forward.edits.get(choice.place),
            _ => None,
        };
        [of_cluster.unwrap_or(&NO_EDITS), &self.route.edits, &self.host.edits, &self.table.edits]
    }

    /// What the filter at a place does with the request, if that is not the default.
    pub(crate) fn filter(&self, index: usize) -> Option<&'t RouteFilter> {
        let of_cluster = match (&self.route.target, self.choice) {
            (Target::Forward(forward), Some(choice)) => forward.filters.get(choice.place)?.as_ref(),
            _ => None,
        };
        of_cluster.unwrap_or(&self.route.filters).get(index)?.as_ref()
    }
}

impl Target {
    /// Whether a connection may change to a protocol; `None` if the route does not say.
    pub(crate) fn allows_upgrade(&self, protocol: &[u8]) -> Option<bool> {
        match self {
            Target::Forward(forward) => find_upgrade(&forward.upgrades, protocol),
            Target::Redirect(_) | Target::Direct(..) => None,
        }
    }
}

impl Forward {
    /// What becomes of a copy of a request: one attempt with this time limit. Costs no allocation.
    pub(super) fn of_copy(timeout: Option<Duration>) -> Self {
        Self {
            clusters: Vec::new(),
            filters: Vec::new(),
            edits: Vec::new(),
            not_found_status: 503,
            prefix_rewrite: None,
            host_rewrite: None,
            timeout,
            retry: None,
            limits: (Vec::new(), false),
            hash: Vec::new(),
            upgrades: Vec::new(),
            mirrors: Vec::new(),
        }
    }
}

/// What a list of protocols in lower case says of one.
pub(crate) fn find_upgrade(upgrades: &[(String, bool)], protocol: &[u8]) -> Option<bool> {
    let found = upgrades.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(protocol));
    found.map(|(_, is_enabled)| *is_enabled)
}

impl RouteTable {
    /// A table of a manager with filters. `cluster` gives the index of a cluster by its name.
    pub(crate) fn new(
        config: &RouteTableConfig,
        filters: &[HttpFilterConfig],
        cluster: impl Fn(&str) -> Option<usize>,
    ) -> Self {
        let (mut exact, mut suffixes, mut prefixes, mut any) = (HashMap::new(), Vec::new(), Vec::new(), None);
        for (index, domain) in
            config.hosts.iter().enumerate().flat_map(|(i, host)| host.domains.iter().map(move |d| (i, d)))
        {
            if domain == "*" {
                any = Some(index);
            } else if let Some(suffix) = domain.strip_prefix('*') {
                suffixes.push((suffix.to_owned(), index));
            } else if let Some(prefix) = domain.strip_suffix('*') {
                prefixes.push((prefix.to_owned(), index));
            } else {
                exact.insert(domain.clone(), index);
            }
        }
        suffixes.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        prefixes.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        let hosts = config.hosts.iter().map(|host| VirtualHost {
            edits: host.edits.clone(),
            limits: host.limits.clone(),
            routes: host
                .routes
                .iter()
                .map(|route| Route {
                    name: route.name.clone(),
                    matching: route.matching.clone(),
                    target: target(&route.action, [&host.mirrors, &config.mirrors], &cluster, |own| {
                        resolve(filters, &[own, &route.filters, &host.filters, &config.filters])
                    }),
                    edits: route.edits.clone(),
                    filters: resolve(filters, &[&route.filters, &host.filters, &config.filters]),
                })
                .collect(),
        });
        Self { exact, suffixes, prefixes, any, hosts: hosts.collect(), edits: config.edits.clone() }
    }

    /// Whether any of its requests is copied.
    pub(crate) fn copies(&self) -> bool {
        let mut routes = self.hosts.iter().flat_map(|host| &host.routes);
        routes.any(|route| matches!(&route.target, Target::Forward(forward) if !forward.mirrors.is_empty()))
    }

    /// The virtual host and the first route that takes a request, with the cluster that it goes to. `random`: of the request, so that it has the
    /// same cluster of several when it is asked again.
    pub(crate) fn find(&self, head: &Head, random: u64, scratch: &mut Vec<u8>) -> Option<Found<'_>> {
        scratch.clear();
        scratch.extend(head.authority().iter().map(u8::to_ascii_lowercase));
        let host = self.host(scratch)?;
        let host = self.hosts.get(host)?;
        if head.method() == b"CONNECT" {
            return None;
        }
        let route = host.routes.iter().find(|route| route.matching.takes(head, scratch))?;
        let choice = match &route.target {
            Target::Forward(forward) => weighted(&forward.clusters, random),
            Target::Redirect(_) | Target::Direct(..) => None,
        };
        Some(Found { host, route, table: self, choice })
    }

    fn host(&self, authority: &[u8]) -> Option<usize> {
        let exact = std::str::from_utf8(authority).ok().and_then(|authority| self.exact.get(authority));
        if let Some(index) = exact {
            return Some(*index);
        }
        // A wildcard stands for one character or more.
        let suffix = self
            .suffixes
            .iter()
            .find(|(suffix, _)| authority.len() > suffix.len() && authority.ends_with(suffix.as_bytes()));
        let prefix = || {
            self.prefixes.iter().find(|(prefix, _)| {
                authority.len() > prefix.len() && authority.starts_with(prefix.as_bytes())
            })
        };
        suffix.or_else(prefix).map(|(_, index)| *index).or(self.any)
    }
}

/// What filters do, by their places, as levels say: the most specific one first.
fn resolve(filters: &[HttpFilterConfig], levels: &[&PerFilter]) -> Box<[Option<RouteFilter>]> {
    let own = |filter: &HttpFilterConfig| {
        filter.kind.resolve(levels.iter().filter_map(|level| level.get(&filter.name)))
    };
    filters.iter().map(own).collect()
}

fn target(
    action: &Action,
    mirrors: [&Vec<MirrorConfig>; 2],
    cluster: &impl Fn(&str) -> Option<usize>,
    filters: impl Fn(&PerFilter) -> Box<[Option<RouteFilter>]>,
) -> Target {
    match action {
        Action::Redirect(redirect) => Target::Redirect((**redirect).clone()),
        Action::Direct { status, body } => Target::Direct(*status, body.clone()),
        Action::Route(action) => Target::Forward(Box::new(Forward {
            clusters: (0..)
                .zip(&action.clusters)
                .map(|(place, own)| (Choice { place, cluster: cluster(&own.name) }, own.weight))
                .collect(),
            filters: action
                .clusters
                .iter()
                .map(|own| (!own.filters.is_empty()).then(|| filters(&own.filters)))
                .collect(),
            edits: action.clusters.iter().map(|own| own.edits.clone()).collect(),
            not_found_status: action.not_found_status,
            prefix_rewrite: action.prefix_rewrite.clone(),
            host_rewrite: action.host_rewrite.clone(),
            timeout: action.timeout,
            retry: action.retry.clone(),
            limits: (action.limits.clone(), action.include_host_limits),
            hash: action.hash.clone(),
            upgrades: action.upgrades.clone(),
            // Those of the most specific level that has any.
            mirrors: [&action.mirrors]
                .into_iter()
                .chain(mirrors)
                .find(|level| !level.is_empty())
                .into_iter()
                .flatten()
                .map(|mirror| Mirror::new(mirror, cluster))
                .collect(),
        })),
    }
}

impl MatchConfig {
    /// Whether this takes a request.
    fn takes(&self, head: &Head, scratch: &mut Vec<u8>) -> bool {
        let path = head.path_without_query();
        let begins = |prefix: &str| match (path.get(..prefix.len()), self.case_sensitive) {
            (Some(start), true) => start == prefix.as_bytes(),
            (Some(start), false) => start.eq_ignore_ascii_case(prefix.as_bytes()),
            (None, _) => false,
        };
        let takes_path = match &self.path {
            PathMatch::Prefix(prefix) => begins(prefix),
            PathMatch::Path(whole) => whole.len() == path.len() && begins(whole),
            PathMatch::SeparatedPrefix(prefix) => {
                begins(prefix) && matches!(path.get(prefix.len()), None | Some(b'/'))
            }
            PathMatch::Regex(regex) => regex.is_match(path),
        };
        takes_path && self.headers.iter().all(|header| header.takes(head, scratch))
    }

    /// The length of what a prefix rewrite replaces.
    pub(crate) fn matched_length(&self, path: &[u8]) -> usize {
        match &self.path {
            PathMatch::Prefix(prefix) | PathMatch::SeparatedPrefix(prefix) => prefix.len(),
            PathMatch::Path(_) | PathMatch::Regex(_) => path.len(),
        }
    }
}

impl HeaderMatch {
    /// Whether a head has such a header. Each field of the name is compared by itself, and one that matches is enough, as with Envoy.
    pub(crate) fn takes(&self, head: &Head, scratch: &mut Vec<u8>) -> bool {
        if let HeaderTest::Present(wanted) = self.test {
            let is_there = self.missing_is_empty || head.pseudo_or_field(&self.name).is_some();
            return (is_there == wanted) != self.invert;
        }
        let mut values = head.values(&self.name).peekable();
        if values.peek().is_none() && !self.missing_is_empty {
            return false;
        }
        let matches = match values.peek() {
            None => self.test.takes(b"", scratch),
            Some(_) => values.any(|value| self.test.takes(value, scratch)),
        };
        matches != self.invert
    }
}

impl HeaderTest {
    /// Whether this takes the value of a header that is there.
    fn takes(&self, value: &[u8], scratch: &mut Vec<u8>) -> bool {
        match self {
            HeaderTest::Present(wanted) => *wanted,
            HeaderTest::Range(start, end) => {
                let number = std::str::from_utf8(value).ok().and_then(|text| text.parse::<i64>().ok());
                number.is_some_and(|number| (*start..*end).contains(&number))
            }
            HeaderTest::Text(test, false) => test.takes(value),
            HeaderTest::Text(test, true) => {
                scratch.clear();
                scratch.extend_from_slice(value);
                scratch.make_ascii_lowercase();
                test.takes(scratch)
            }
        }
    }
}

impl TextTest {
    /// Whether this takes a text.
    pub(crate) fn takes(&self, value: &[u8]) -> bool {
        match self {
            TextTest::Exact(text) => value == text.as_bytes(),
            TextTest::Prefix(text) => value.starts_with(text.as_bytes()),
            TextTest::Suffix(text) => value.ends_with(text.as_bytes()),
            TextTest::Contains(text) => memchr::memmem::find(value, text.as_bytes()).is_some(),
            TextTest::Regex(regex) => regex.is_match(value),
        }
    }
}
