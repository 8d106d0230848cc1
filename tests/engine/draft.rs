//! A configuration as its operator means it, random edits of it that are valid as a whole, and mistakes in writing it down.

use std::collections::BTreeMap;

use crate::schedules::Random;
use crate::stage::Files;

pub(crate) const USERS: [&str; 5] = ["ann", "bob", "carl", "dan", "eve"];
/// What is declared.
const MANIFEST: &str = "kind: attributemanifest
metadata: {name: words, namespace: istio-system}
spec: {attributes: {source.user: {valueType: STRING}, request.path: {valueType: STRING}}}
";
/// The path that some rules are about; requests to others have none.
pub(crate) const PATH: &str = "/admin";
/// Files at the beginning.
const FILES: usize = 3;

/// Users by number.
type Set = Vec<usize>;

/// What a resource is meant to be. Others are named by their number.
#[derive(Debug, Clone, PartialEq)]
enum Body {
    Denier,
    /// A list that refuses what it has, or what it does not have.
    List {
        is_black: bool,
        entries: Vec<String>,
    },
    Any,
    /// The user; or `banned` for one of them and `good` for all others.
    Value(Option<usize>),
    Rule {
        when: When,
        handler: usize,
        instance: usize,
    },
}

/// The condition of a rule.
#[derive(Debug, Clone, PartialEq)]
enum When {
    Always,
    Users(Set),
    Except(Set),
    /// The users, or anybody if there are none, at [`PATH`].
    At(Set),
}

impl When {
    fn text(&self) -> String {
        let join = |users: &Set, sign: &str, between: &str| {
            let all = users.iter().map(|user| format!("(source.user | \"\") {sign} \"{}\"", USERS[*user]));
            all.collect::<Vec<_>>().join(between)
        };
        match self {
            Self::Always => "true".to_owned(),
            Self::Users(users) => join(users, "==", " || "),
            Self::Except(users) => join(users, "!=", " && "),
            Self::At(users) => {
                let path = format!("(request.path | \"\") == \"{PATH}\"");
                match users.is_empty() {
                    true => path,
                    false => format!("({}) && {path}", join(users, "==", " || ")),
                }
            }
        }
    }
}

/// A document.
#[derive(Debug, Clone, PartialEq)]
struct Document {
    name: String,
    file: usize,
    body: Body,
}

/// A configuration as it is meant.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Draft {
    documents: BTreeMap<usize, Document>,
    next: usize,
}

impl Draft {
    pub(crate) fn new(random: &mut Random) -> Self {
        let mut all = Self::default();
        let file = |random: &mut Random| random.below(FILES);
        let any = all.add(file(random), Body::Any);
        let refuse = all.add(file(random), Body::Denier);
        let values: Vec<usize> = [None, None, Some(random.below(USERS.len()))]
            .into_iter()
            .take(1 + random.below(3))
            .map(|value| all.add(file(random), Body::Value(value)))
            .collect();
        for _ in 0..1 + random.below(3) {
            let users = some(random, USERS.len());
            let when = if random.below(5) == 0 { When::Except(users) } else { When::Users(users) };
            all.add(file(random), Body::Rule { when, handler: refuse, instance: any });
        }
        for _ in 0..1 + random.below(2) {
            let instance = values[random.below(values.len())];
            let list = all.list_for(instance, random.below(4) > 0, random);
            let when =
                if random.below(3) > 0 { When::Always } else { When::Users(some(random, USERS.len())) };
            all.add(file(random), Body::Rule { when, handler: list, instance });
        }
        all
    }

    fn add(&mut self, file: usize, body: Body) -> usize {
        let id = self.next;
        self.next += 1;
        let kind = match body {
            Body::Denier => "deny",
            Body::List { .. } => "list",
            Body::Any => "any",
            Body::Value(_) => "value",
            Body::Rule { .. } => "rule",
        };
        self.documents.insert(id, Document { name: format!("{kind}{id}"), file, body });
        id
    }

    fn list_for(&mut self, instance: usize, is_black: bool, random: &mut Random) -> usize {
        let entries = self.entries_for(instance, is_black, random);
        self.add(random.below(FILES), Body::List { is_black, entries })
    }

    fn entries_for(&self, instance: usize, is_black: bool, random: &mut Random) -> Vec<String> {
        match self.documents.get(&instance).map(|document| &document.body) {
            Some(Body::Value(Some(_))) => vec![if is_black { "banned" } else { "good" }.to_owned()],
            _ => some(random, USERS.len()).into_iter().map(|user| USERS[user].to_owned()).collect(),
        }
    }

    fn ids(&self, is_wanted: impl Fn(&Body) -> bool) -> Vec<usize> {
        let documents = self.documents.iter().filter(|(_, document)| is_wanted(&document.body));
        documents.map(|(id, _)| *id).collect()
    }

    /// What differs in another draft.
    pub(crate) fn changed(&self, other: &Self) -> Vec<usize> {
        let differs =
            |id: &&usize| self.text(**id) != other.text(**id) || self.file(**id) != other.file(**id);
        let ids =
            self.documents.keys().chain(other.documents.keys().filter(|id| !self.documents.contains_key(id)));
        ids.filter(differs).copied().collect()
    }

    pub(crate) fn all(&self) -> Vec<usize> {
        self.documents.keys().copied().collect()
    }

    pub(crate) fn file(&self, id: usize) -> Option<usize> {
        self.documents.get(&id).map(|document| document.file)
    }

    pub(crate) fn text(&self, id: usize) -> Option<String> {
        let document = self.documents.get(&id)?;
        let name = |id: &usize| self.documents.get(id).map_or("none", |document| &document.name);
        let (kind, spec) = match &document.body {
            Body::Denier => ("handler", "compiledAdapter: denier".to_owned()),
            Body::List { is_black, entries } => {
                let entries = entries.join(", ");
                (
                    "handler",
                    format!(
                        "compiledAdapter: listchecker, params: {{blacklist: {is_black}, overrides: [{entries}]}}"
                    ),
                )
            }
            Body::Any => ("instance", "compiledTemplate: checknothing".to_owned()),
            Body::Value(plan) => {
                let user = "source.user | \"\"";
                let value = match plan {
                    None => user.to_owned(),
                    Some(banned) => {
                        format!("conditional(({user}) == \"{}\", \"banned\", \"good\")", USERS[*banned])
                    }
                };
                ("instance", format!("compiledTemplate: listentry, params: {{value: '{value}'}}"))
            }
            Body::Rule { when, handler, instance } => {
                let action = format!("{{handler: {}, instances: [{}]}}", name(handler), name(instance));
                ("rule", format!("match: '{}', actions: [{action}]", when.text()))
            }
        };
        Some(format!(
            "kind: {kind}\nmetadata: {{name: {}, namespace: istio-system}}\nspec: {{{spec}}}\n",
            document.name
        ))
    }

    /// The files, with mistakes in these documents.
    pub(crate) fn files(&self, mistakes: &BTreeMap<usize, usize>) -> Files {
        let mut files = Files::default();
        files.put("/conf/words.yaml", MANIFEST);
        let last = self.documents.values().map(|document| document.file).max().unwrap_or(0);
        for file in 0..=last.max(FILES) {
            let own = self.documents.iter().filter(|(_, document)| document.file == file);
            let texts = own.filter_map(|(id, _)| {
                let text = self.text(*id)?;
                let mistaken = mistakes.get(id).map(|mistake| MISTAKES[*mistake].1(&text));
                let text = mistaken.unwrap_or(text);
                Some(if text.ends_with('\n') { text } else { format!("{text}\n") })
            });
            let texts: Vec<String> = texts.collect();
            let text = if texts.is_empty() { "# Nothing yet.\n".to_owned() } else { texts.join("---\n") };
            files.put(&format!("/conf/{file}.yaml"), text);
        }
        files
    }

    /// One edit; its name.
    pub(crate) fn edit(&mut self, random: &mut Random) -> &'static str {
        for _ in 0..50 {
            let mut edited = self.clone();
            let what = edited.try_edit(random);
            if let Some(what) = what.filter(|_| edited != *self) {
                *self = edited;
                return what;
            }
        }
        "nothing"
    }

    fn try_edit(&mut self, random: &mut Random) -> Option<&'static str> {
        let rules = self.ids(|body| matches!(body, Body::Rule { .. }));
        let lists = self.ids(|body| matches!(body, Body::List { .. }));
        let rule = *pick(&rules, random)?;
        Some(match random.below(20) {
            0 | 1 => {
                let document = self.documents.get(&rule)?.clone();
                let Body::Rule { when: When::Users(users), handler, instance } = document.body else {
                    return None;
                };
                let at = 1 + random.below(users.len().checked_sub(1).filter(|count| *count > 0)?);
                let (stay, go) = users.split_at(at);
                self.set_when(rule, When::Users(stay.to_vec()));
                let when = When::Users(go.to_vec());
                self.add(random.below(FILES), Body::Rule { when, handler, instance });
                "split"
            }
            2 | 3 => {
                let other = *pick(&rules, random)?;
                let (one, two) = (self.users_of(rule)?, self.users_of(other)?);
                let actions = |id| match &self.documents.get(&id)?.body {
                    Body::Rule { handler, instance, .. } => Some((*handler, *instance)),
                    _ => None,
                };
                if rule == other || actions(rule) != actions(other) {
                    return None;
                }
                self.set_when(rule, When::Users(union(&one, &two)));
                self.documents.remove(&other);
                "merge"
            }
            4 => {
                let ids = self.all();
                let id = *pick(&ids, random)?;
                let document = self.documents.get_mut(&id)?;
                document.name = format!("{}-{}", document.name.split('-').next()?, random.below(9));
                "rename"
            }
            5 => {
                let ids = self.all();
                let id = *pick(&ids, random)?;
                self.documents.get_mut(&id)?.file = random.below(FILES + 1);
                "move"
            }
            6 => {
                let other = *pick(&rules, random)?;
                let (mut from, to) = (self.users_of(rule)?, self.users_of(other)?);
                if rule == other {
                    return None;
                }
                let user = from.remove(random.below(from.len()));
                self.set_when(other, When::Users(union(&to, &[user])));
                match from.is_empty() {
                    true => drop(self.documents.remove(&rule)),
                    false => self.set_when(rule, When::Users(from)),
                }
                "move a user"
            }
            7 => {
                let (from, to) = (*pick(&lists, random)?, *pick(&lists, random)?);
                let at = random.below(self.entries(from)?.len().max(1));
                if from == to || at >= self.entries(from)?.len() {
                    return None;
                }
                let entry = self.entries(from)?.remove(at);
                self.entries(to)?.push(entry);
                "move an entry"
            }
            8 => {
                let mut users = self.users_of(rule)?;
                let user = users.remove(random.below(users.len()));
                self.entries(*pick(&lists, random)?)?.push(USERS[user].to_owned());
                match users.is_empty() {
                    true => drop(self.documents.remove(&rule)),
                    false => self.set_when(rule, When::Users(users)),
                }
                "from a rule to a list"
            }
            9 => {
                let entries = self.entries(*pick(&lists, random)?)?;
                let at = random.below(entries.len().max(1));
                let user = USERS
                    .iter()
                    .position(|user| Some(user) == entries.get(at).map(|entry| &**entry).as_ref())?;
                entries.remove(at);
                let users = self.users_of(rule)?;
                self.set_when(rule, When::Users(union(&users, &[user])));
                "from a list to a rule"
            }
            10 => {
                let users = self.users_of(rule)?;
                self.set_when(rule, When::Users(union(&users, &[random.below(USERS.len())])));
                "add a user"
            }
            11 => {
                let mut users = self.users_of(rule)?;
                users.remove(random.below(users.len()));
                match users.is_empty() {
                    true => drop(self.documents.remove(&rule)),
                    false => self.set_when(rule, When::Users(users)),
                }
                "remove a user"
            }
            12 => {
                let values = self.ids(|body| matches!(body, Body::Value(_)));
                let value = *pick(&values, random)?;
                let body = Body::Value((random.below(3) > 0).then(|| random.below(USERS.len())));
                let renames = random.below(3) == 0;
                let document = self.documents.get_mut(&value)?;
                document.body = body;
                if renames {
                    document.name += "x";
                }
                let with = self.documents.values().filter_map(|document| match &document.body {
                    Body::Rule { handler, instance, .. } if *instance == value => Some(*handler),
                    _ => None,
                });
                for list in with.collect::<Vec<_>>() {
                    let is_black =
                        matches!(self.documents.get(&list)?.body, Body::List { is_black: true, .. });
                    let entries = self.entries_for(value, is_black, random);
                    if let Some(known) = self.entries(list) {
                        *known = entries;
                    }
                }
                "a list of others"
            }
            13 => {
                self.documents.remove(&rule);
                "delete"
            }
            14 => {
                // The same users are refused by a list.
                let users = self.users_of(rule)?;
                let value = *self.ids(|body| *body == Body::Value(None)).first()?;
                let entries = users.iter().map(|user| USERS[*user].to_owned()).collect();
                let list = self.add(random.below(FILES), Body::List { is_black: true, entries });
                let document = self.documents.get_mut(&rule)?;
                document.body = Body::Rule { when: When::Always, handler: list, instance: value };
                "a list instead of a condition"
            }
            15 => {
                // What a rule or a list lets pass is refused by a new rule.
                let user = random.below(USERS.len());
                let all = self.ids(|body| {
                    matches!(
                        body,
                        Body::Rule { when: When::Except(_) | When::Always, .. }
                            | Body::List { is_black: false, .. }
                    )
                });
                let document = self.documents.get_mut(pick(&all, random)?)?;
                match &mut document.body {
                    Body::Rule { when: When::Except(users), .. } => *users = union(users, &[user]),
                    Body::Rule { when, .. } => *when = When::Except(vec![user]),
                    Body::List { entries, .. } => entries.push(USERS[user].to_owned()),
                    _ => return None,
                }
                let (handler, instance) = self.refusal()?;
                self.add(
                    random.below(FILES),
                    Body::Rule { when: When::Users(vec![user]), handler, instance },
                );
                "refused by a rule of its own"
            }
            16 => {
                let when = match random.below(4) {
                    0 => When::Always,
                    1 => When::At(if random.below(2) == 0 { Set::new() } else { some(random, USERS.len()) }),
                    2 => When::Except(some(random, USERS.len())),
                    _ => When::Users(some(random, USERS.len())),
                };
                self.set_when(rule, when);
                "another condition"
            }
            17 => {
                let Body::Rule { handler, instance, .. } = self.documents.get(&rule)?.body.clone() else {
                    return None;
                };
                let other = *pick(&rules, random)?;
                let Body::Rule { handler: h, instance: i, when } = self.documents.get(&other)?.body.clone()
                else {
                    return None;
                };
                self.documents.get_mut(&other)?.body = Body::Rule { when, handler, instance };
                let Body::Rule { when, .. } = self.documents.get(&rule)?.body.clone() else { return None };
                self.documents.get_mut(&rule)?.body = Body::Rule { when, handler: h, instance: i };
                "handlers of two rules swapped"
            }
            18 => {
                // Some users are refused at a path only, or everywhere again.
                let when = match self.documents.get(&rule)?.body.clone() {
                    Body::Rule { when: When::Users(users), .. } => When::At(users),
                    Body::Rule { when: When::At(users), .. } if !users.is_empty() => When::Users(users),
                    _ => return None,
                };
                self.set_when(rule, when);
                "at a path"
            }
            _ => {
                // A list becomes a condition.
                let Body::Rule { handler, instance, .. } = self.documents.get(&rule)?.body.clone() else {
                    return None;
                };
                if !matches!(self.documents.get(&instance)?.body, Body::Value(None)) {
                    return None;
                }
                let entries = self.entries(handler)?.clone();
                let users: Set = (0..USERS.len())
                    .filter(|user| entries.iter().any(|entry| entry == USERS[*user]))
                    .collect();
                let (refuse, any) = self.refusal()?;
                if users.is_empty() {
                    return None;
                }
                self.documents.get_mut(&rule)?.body =
                    Body::Rule { when: When::Users(users), handler: refuse, instance: any };
                "a condition instead of a list"
            }
        })
    }

    /// What refuses whom a rule selects.
    fn refusal(&self) -> Option<(usize, usize)> {
        let (denier, any) = (self.ids(|body| *body == Body::Denier), self.ids(|body| *body == Body::Any));
        Some((*denier.first()?, *any.first()?))
    }

    fn entries(&mut self, list: usize) -> Option<&mut Vec<String>> {
        match &mut self.documents.get_mut(&list)?.body {
            Body::List { entries, .. } => Some(entries),
            _ => None,
        }
    }

    fn users_of(&self, rule: usize) -> Option<Set> {
        match &self.documents.get(&rule)?.body {
            Body::Rule { when: When::Users(users), .. } => Some(users.clone()),
            _ => None,
        }
    }

    fn set_when(&mut self, rule: usize, new: When) {
        if let Some(Document { body: Body::Rule { when, .. }, .. }) = self.documents.get_mut(&rule) {
            *when = new;
        }
    }
}

fn pick<'a, T>(from: &'a [T], random: &mut Random) -> Option<&'a T> {
    (!from.is_empty()).then(|| &from[random.below(from.len())])
}

/// At least one number below `end`.
fn some(random: &mut Random, end: usize) -> Set {
    let mut all: Set = (0..end).filter(|_| random.below(4) == 0).collect();
    if all.is_empty() {
        all.push(random.below(end));
    }
    all
}

fn union(a: &[usize], b: &[usize]) -> Set {
    let mut all = [a, b].concat();
    all.sort_unstable();
    all.dedup();
    all
}

/// Makes a mistake in the text of a resource.
type Mistake = fn(&str) -> String;

/// What is wrong with a document.
pub(crate) const MISTAKES: [(&str, Mistake); 14] = [
    ("an unknown field", |text| text.replace("spec: {", "spec: {blakc: 1, ")),
    ("an unknown annotation", |text| {
        text.replacen("metadata: {", "metadata: {annotations: {mixer.dev/on-eror: deny}, ", 1)
    }),
    ("an unknown field beside the specification", |text| format!("{text}mtach: x\n")),
    ("an unknown kind", |text| text.replacen("kind: ", "kind: x", 1)),
    ("no YAML", |text| text.trim_end().strip_suffix('}').unwrap_or(text).to_owned()),
    ("no name", |text| text.replacen("name: ", "nam: ", 1)),
    ("no kind", |text| text.split_once('\n').map(|(_, rest)| rest.to_owned()).unwrap_or_default()),
    ("a cut", |text| text.get(..text.len() * 2 / 3).unwrap_or_default().to_owned()),
    ("a misspelt handler", |text| {
        text.replace("handler: deny", "handler: dney").replace("handler: list", "handler: lsit")
    }),
    ("a misspelt instance", |text| {
        text.replace("instances: [any", "instances: [ayn").replace("instances: [value", "instances: [vlaue")
    }),
    ("an unknown attribute", |text| text.replace("source.user", "sorce.user")),
    ("another kind", |text| match text.contains("kind: rule") {
        true => text.replacen("kind: rule", "kind: handler", 1),
        false => {
            text.replacen("kind: handler", "kind: rule", 1).replacen("kind: instance", "kind: handler", 1)
        }
    }),
    ("a misspelt parameter", |text| text.replace("blacklist", "blackist").replace("{value:", "{valeu:")),
    ("a list that does not build", |text| {
        text.replace("params: {blacklist", "params: {entryType: IP_ADDRESSES, blacklist")
    }),
];
