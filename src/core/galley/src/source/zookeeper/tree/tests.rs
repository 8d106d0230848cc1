//! The tree against a model of a server: whatever happens in between, it ends with what the server has.

use super::*;

fn names(names: &[&str]) -> Answer {
    Answer::Children(names.iter().map(|name| (*name).to_owned()).collect())
}

const NO_NODE: Answer = Answer::Failed(Failure::Refused(Code::NoNode));
const NO_AUTH: Answer = Answer::Failed(Failure::Refused(Code::NoAuth));

fn all_due(tree: &mut Tree, now: Instant) -> Vec<Read> {
    std::iter::from_fn(|| tree.next(now)).collect()
}

fn providers(name: &str) -> Read {
    Read::Providers(name.into())
}

#[test]
fn the_root_leads_to_the_services_and_these_to_their_providers() {
    let now = Instant::now();
    let mut tree = Tree::new("/dubbo");
    tree.begin();
    assert_eq!(all_due(&mut tree, now), [Read::Root]);
    tree.answered(Read::Root, names(&["b", "metadata", "a", "config", "mapping"]), now);
    assert_eq!(all_due(&mut tree, now), [providers("a"), providers("b")]);
    assert!(!tree.is_complete());
    let read = tree.answered(providers("a"), names(&["z", "y"]), now);
    assert_eq!(read, Outcome::Providers("a".into(), vec!["y".to_owned(), "z".to_owned()], 0));
    let read = tree.answered(providers("b"), NO_NODE, now);
    assert_eq!(read, Outcome::Providers("b".into(), Vec::new(), 0));
    assert!(tree.is_complete(), "every service was read once");
    assert_eq!(all_due(&mut tree, now), [Read::Service("b".into())], "to see when it gets providers");
    assert_eq!(tree.path(&Read::Service("b".into())), "/dubbo/b");
    tree.answered(Read::Service("b".into()), names(&["consumers"]), now);
    for (path, read) in [
        ("/dubbo", Some(Read::Root)),
        ("/dubbo/a/providers", Some(providers("a"))),
        ("/dubbo/b", Some(Read::Service("b".into()))),
        ("/dubbo/a/consumers", None),
        ("/dubbo/nosuch/providers", None),
        ("/other", None),
        ("/dubbox/a/providers", None),
    ] {
        tree.notified(path);
        tree.notified(path);
        assert_eq!(all_due(&mut tree, now), Vec::from_iter(read), "{path}");
    }
    assert_eq!(tree.answered(Read::Root, names(&["a"]), now), Outcome::Root(vec!["b".into()]));
    let late = tree.answered(providers("b"), names(&["x"]), now);
    assert_eq!(late, Outcome::Nothing, "of a service that is gone");
}

#[test]
fn a_root_that_is_missing_is_waited_for() {
    let now = Instant::now();
    let mut tree = Tree::new("");
    assert_eq!(tree.path(&Read::Root), "/");
    tree.begin();
    all_due(&mut tree, now);
    tree.answered(Read::Root, NO_NODE, now);
    assert!(tree.is_complete(), "there is nothing");
    assert_eq!(all_due(&mut tree, now), [Read::RootExists]);
    tree.answered(Read::RootExists, NO_NODE, now);
    assert!(all_due(&mut tree, now).is_empty());
    tree.notified("/");
    assert_eq!(all_due(&mut tree, now), [Read::Root]);
    tree.answered(Read::RootExists, Answer::Exists, now);
    assert_eq!(all_due(&mut tree, now), [Read::Root], "it was created in between");
}

#[test]
fn what_cannot_be_read_is_tried_again_and_does_not_hold_up_the_rest() {
    let mut now = Instant::now();
    let mut tree = Tree::new("/d");
    tree.begin();
    all_due(&mut tree, now);
    tree.answered(Read::Root, names(&["a"]), now);
    let mut pauses = Vec::new();
    for _ in 0..10 {
        assert_eq!(all_due(&mut tree, now), [providers("a")]);
        let failed = tree.answered(providers("a"), NO_AUTH, now);
        assert_eq!(failed, Outcome::ProvidersFailed("a".into(), Failure::Refused(Code::NoAuth)));
        assert!(all_due(&mut tree, now).is_empty() && tree.is_complete());
        let due = tree.due().unwrap();
        pauses.push(due - now);
        now = due;
    }
    assert!(pauses[0] <= FIRST_PAUSE && pauses[0] >= FIRST_PAUSE / 2, "{pauses:?}");
    assert!(pauses[9] <= LONGEST_PAUSE && pauses[9] >= LONGEST_PAUSE / 2, "{pauses:?}");
    tree.notified("/d/a/providers");
    assert_eq!(all_due(&mut tree, now), [providers("a")], "a notification does not wait");
    assert_eq!(tree.due(), None);
    let failed = tree.answered(Read::Root, Answer::Failed(Failure::TooLarge(17 << 20)), now);
    assert_eq!(failed, Outcome::RootFailed(Failure::TooLarge(17 << 20)));
    tree.begin();
    assert_eq!((tree.due(), all_due(&mut tree, now)), (None, vec![Read::Root]), "another connection");
}

#[test]
fn services_beyond_the_bound_are_counted() {
    let now = Instant::now();
    let mut tree = Tree::new("/d");
    tree.max_services = 2;
    tree.begin();
    all_due(&mut tree, now);
    tree.answered(Read::Root, names(&["c", "a", "b", "d"]), now);
    assert_eq!((tree.beyond(), all_due(&mut tree, now).len()), (2, 2));
    let gone = tree.answered(Read::Root, names(&["b", "c"]), now);
    assert_eq!((gone, tree.beyond()), (Outcome::Root(vec!["a".into()]), 0));
    let many: Vec<String> = (0..=MAX_ENDPOINTS).map(|number| number.to_string()).collect();
    let Outcome::Providers(_, read, beyond) = tree.answered(providers("b"), Answer::Children(many), now)
    else {
        panic!("no providers");
    };
    assert_eq!((read.len(), beyond), (MAX_ENDPOINTS, 1));
}

/// A server: its nodes below the root, and the watches of one connection. Notifications come before replies that show the change.
#[derive(Default)]
struct Model {
    /// Services, and their providers if there is such a node; `None` without a root.
    root: Option<BTreeMap<String, Option<BTreeSet<String>>>>,
    watches: BTreeSet<String>,
    notified: VecDeque<String>,
}

impl Model {
    fn fire(&mut self, path: &str) {
        if self.watches.remove(path) {
            self.notified.push_back(path.to_owned());
        }
    }

    fn change(&mut self) {
        let service = ["a", "b", "c"][fastrand::usize(..3)].to_owned();
        let node = format!("/d/{service}");
        let Some(root) = &mut self.root else {
            self.root = Some(BTreeMap::new());
            return self.fire("/d");
        };
        let is_empty = root.is_empty();
        match (fastrand::usize(..8), root.get_mut(&service)) {
            (0, _) if is_empty => {
                self.root = None;
                self.fire("/d");
            }
            (1..3, Some(None)) => {
                root.remove(&service);
                self.fire(&node);
                self.fire("/d");
            }
            (3, Some(providers)) => {
                match providers {
                    Some(nodes) if nodes.is_empty() => {
                        *providers = None;
                        self.fire(&format!("{node}/providers"));
                    }
                    Some(_) => return,
                    None => *providers = Some(BTreeSet::new()),
                }
                self.fire(&node);
            }
            (4.., Some(Some(nodes))) => {
                let name = fastrand::usize(..4).to_string();
                if !nodes.remove(&name) {
                    nodes.insert(name);
                }
                self.fire(&format!("{node}/providers"));
            }
            (_, None) => {
                root.insert(service, None);
                self.fire("/d");
            }
            _ => {}
        }
    }

    fn answer(&mut self, read: &Read, path: String) -> Answer {
        let of_service =
            |root: &BTreeMap<String, Option<BTreeSet<String>>>, name: &str| root.get(name).cloned();
        let answer = match (read, &self.root) {
            (Read::RootExists, root) => {
                self.watches.insert(path);
                return if root.is_some() { Answer::Exists } else { NO_NODE };
            }
            (_, None) => None,
            (Read::Root, Some(root)) => Some(root.keys().cloned().collect()),
            (Read::Service(name), Some(root)) => of_service(root, name)
                .map(|providers| providers.map(|_| "providers".to_owned()).into_iter().collect()),
            (Read::Providers(name), Some(root)) => {
                of_service(root, name).flatten().map(|nodes| nodes.into_iter().collect())
            }
        };
        match answer {
            Some(children) => {
                self.watches.insert(path);
                Answer::Children(children)
            }
            None => NO_NODE,
        }
    }

    /// Services with providers.
    fn wanted(&self) -> BTreeMap<String, Vec<String>> {
        let all = self.root.iter().flatten().filter_map(|(name, nodes)| {
            let nodes: Vec<String> = nodes.iter().flatten().cloned().collect();
            (!nodes.is_empty()).then(|| (name.clone(), nodes))
        });
        all.collect()
    }
}

/// What a reader knows.
#[derive(Default)]
struct Known(BTreeMap<String, Vec<String>>);

impl Known {
    fn take(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Root(gone) => gone.iter().for_each(|name| drop(self.0.remove(&**name))),
            Outcome::Providers(name, nodes, _) if nodes.is_empty() => drop(self.0.remove(&*name)),
            Outcome::Providers(name, nodes, _) => drop(self.0.insert(name.to_string(), nodes)),
            Outcome::Nothing | Outcome::RootFailed(_) | Outcome::ProvidersFailed(..) => {}
        }
    }
}

#[test]
fn any_schedule_of_changes_ends_with_what_the_server_has() {
    let schedules =
        std::env::var("MIXER_SCHEDULES").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000);
    let first = std::env::var("MIXER_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let now = Instant::now();
    for seed in first..first + schedules {
        fastrand::seed(seed);
        let (mut tree, mut model, mut known) = (Tree::new("/d"), Model::default(), Known::default());
        tree.begin();
        // Replies and notifications in the order of the server.
        let mut on_the_way: VecDeque<Result<String, (Read, Answer)>> = VecDeque::new();
        let mut steps = fastrand::usize(1..60);
        loop {
            match fastrand::usize(..10) {
                0..4 if steps > 0 => {
                    steps -= 1;
                    model.change();
                    on_the_way.extend(model.notified.drain(..).map(Ok));
                }
                4..7 => {
                    if let Some(read) = tree.next(now) {
                        let path = tree.path(&read);
                        let answer = match steps > 0 && fastrand::usize(..20) == 0 {
                            true => NO_AUTH,
                            false => model.answer(&read, path),
                        };
                        on_the_way.push_back(Err((read, answer)));
                    } else if on_the_way.is_empty() && steps == 0 {
                        // What failed is due.
                        match tree.next(now + LONGEST_PAUSE) {
                            Some(read) => {
                                let answer = model.answer(&read, tree.path(&read));
                                on_the_way.push_back(Err((read, answer)));
                            }
                            None => break,
                        }
                    }
                }
                7 if steps > 0 && fastrand::usize(..10) == 0 => {
                    // Another connection.
                    on_the_way.clear();
                    model.watches.clear();
                    tree.begin();
                }
                _ => match on_the_way.pop_front() {
                    Some(Ok(path)) => tree.notified(&path),
                    Some(Err((read, answer))) => known.take(tree.answered(read, answer, now)),
                    None => {}
                },
            }
        }
        assert!(tree.is_complete(), "seed {seed}");
        assert_eq!(known.0, model.wanted(), "seed {seed}");
    }
}
