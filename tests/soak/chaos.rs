//! Chaos in the configuration directory, under load.
//!
//! Every event breaks the configuration, or the server, in one way and mends it. Meanwhile callers ask: whom every good configuration
//! denies is never allowed, whom every good configuration allows never fails, and who changes is answered by the last good
//! configuration or by the one before while it is being replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::support::bag::{self, Attribute, Attributes, Words};
use crate::support::rpc::{Client, mixer};
use crate::support::{DEADLINE, Ports, Server, put, run_mixer, wait_for};

/// How long a file may be gone or empty before its resources are deleted; the store waits a second.
const ABSENCE: Duration = Duration::from_millis(600);

/// How long other faults last.
const FAULT: Duration = Duration::from_millis(250);

/// How long references are broken.
const LONG_FAULT: Duration = Duration::from_millis(1_500);

const HEADER: &str = "apiVersion: config.istio.io/v1alpha2\n";

/// The files that every good configuration has, and what they hold.
const FILES: [(&str, &str); 4] = [
    (
        "manifest.yaml",
        "kind: attributemanifest
metadata: {name: chaos, namespace: istio-system}
spec:
  attributes:
    source.user: {valueType: STRING}
    destination.service: {valueType: STRING}
",
    ),
    (
        "instances.yaml",
        "kind: instance
metadata: {name: caller, namespace: istio-system}
spec: {compiledTemplate: checknothing}
---
apiVersion: config.istio.io/v1alpha2
kind: instance
metadata: {name: user, namespace: istio-system}
spec: {compiledTemplate: listentry, params: {value: source.user}}
",
    ),
    (
        "handlers.yaml",
        "kind: handler
metadata: {name: refuse, namespace: istio-system}
spec: {compiledAdapter: denier, params: {status: {code: 7, message: not you}}}
---
apiVersion: config.istio.io/v1alpha2
kind: handler
metadata: {name: members, namespace: istio-system}
spec: {compiledAdapter: listchecker, params: {overrides: [ann], blacklist: false}}
",
    ),
    (
        "rules.yaml",
        "kind: rule
metadata: {name: mallory, namespace: istio-system}
spec: {match: source.user == \"mallory\", actions: [{handler: refuse, instances: [caller]}]}
---
apiVersion: config.istio.io/v1alpha2
kind: rule
metadata: {name: vault, namespace: istio-system}
spec: {match: destination.service == \"vault\", actions: [{handler: members, instances: [user]}]}
",
    ),
];

/// Mistakes: in which file, and what is replaced by what.
const TYPOS: [(&str, &str, &str); 12] = [
    ("handlers.yaml", "denier", "deniar"),
    ("handlers.yaml", "listchecker", "listcheker"),
    ("handlers.yaml", "code: 7", "code: seven"),
    ("handlers.yaml", "name: refuse", "name: refuze"),
    ("instances.yaml", "checknothing", "checknothin"),
    ("instances.yaml", "value: source.user", "value: sorce.user"),
    ("instances.yaml", "name: caller", "name: callr"),
    ("rules.yaml", "handler: refuse", "handler: refuze"),
    ("rules.yaml", "instances: [user]", "instances: [usr]"),
    ("rules.yaml", "source.user ==", "source.user ="),
    ("rules.yaml", "destination.service ==", "destination.servis =="),
    ("manifest.yaml", "source.user: {valueType: STRING}", "source.user: {valueType: STRNG}"),
];

/// Texts that make a line of YAML invalid.
const SYNTAX: [&str; 4] = ["\t- x\n", "{\n", "\"\n", "a: b: c\n"];

fn good(file: &str) -> String {
    let text = FILES.iter().find(|(name, _)| *name == file).map_or("", |(_, text)| *text);
    format!("{HEADER}{text}")
}

/// A rule that denies one user with a number as its text.
fn numbered(user: &str, number: u64) -> String {
    format!(
        "{HEADER}kind: handler
metadata: {{name: {user}, namespace: istio-system}}
spec: {{compiledAdapter: denier, params: {{status: {{code: 7, message: number {number}}}}}}}
---
{HEADER}kind: rule
metadata: {{name: {user}, namespace: istio-system}}
spec: {{match: source.user == \"{user}\", actions: [{{handler: {user}, instances: [caller]}}]}}
"
    )
}

/// A pseudo-random sequence (xorshift64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap_or(0) % count.max(1)
    }
}

/// What callers see: the fault that is being injected, and what it excuses.
#[derive(Default)]
struct Stage {
    fault: Mutex<String>,
    /// The server is being started again: calls may fail, but none may be allowed that must be denied.
    restarts: AtomicBool,
    stop: AtomicBool,
    calls: AtomicU64,
    /// Numbers with which user `switch` may be denied; `None`: allowed.
    switch: Mutex<BTreeSet<Option<u64>>>,
    /// Wrong answers by fault and caller: how many, and the first.
    violations: Mutex<BTreeMap<String, (u64, String)>>,
}

impl Stage {
    fn violation(&self, who: &str, text: String) {
        let fault = self.fault.lock().expect("no caller panics").clone();
        let mut violations = self.violations.lock().expect("no caller panics");
        violations.entry(format!("{fault}: {who}")).or_insert((0, text)).0 += 1;
    }
}

fn request(user: &str, service: &str) -> mixer::CheckRequest {
    let text = |text: &str| Attribute::Text(text.to_owned());
    let attributes = Attributes::from([
        ("source.user".to_owned(), text(user)),
        ("destination.service".to_owned(), text(service)),
    ]);
    let attributes = bag::encode_alone(&attributes, Words::of_message());
    mixer::CheckRequest { attributes: Some(attributes), ..Default::default() }
}

/// The code and text of an answer. Errors: the text of a failed call.
fn ask(client: &mut Client, user: &str, service: &str) -> Result<(i32, String), String> {
    let answer = client.check(&request(user, service), None).map_err(|status| status.to_string())?;
    let status = answer.precondition.unwrap_or_default().status.unwrap_or_default();
    Ok((status.code, status.message))
}

/// The number with which a user is denied; `None`: allowed.
fn number(answer: Result<(i32, String), String>) -> Result<Option<u64>, String> {
    match answer? {
        (0, _) => Ok(None),
        (_, text) => text.rsplit(' ').next().and_then(|word| word.parse().ok()).map(Some).ok_or(text),
    }
}

/// A round of calls.
type Act = Box<dyn Fn(&mut Client, &Stage) + Send>;

/// Starts the callers.
fn callers(stage: &Arc<Stage>, address: &str) -> Vec<JoinHandle<()>> {
    let fixed = [
        ("mallory", "shop", true),
        ("mallory", "vault", true),
        ("eve", "vault", true),
        ("linked", "shop", true),
        ("ann", "shop", false),
        ("ann", "vault", false),
    ];
    let caller = |act: Act| {
        let (stage, address) = (Arc::clone(stage), address.to_owned());
        std::thread::spawn(move || {
            let mut client = Client::new(&address).expect("a client");
            while !stage.stop.load(Ordering::Relaxed) {
                act(&mut client, &stage);
                stage.calls.fetch_add(1, Ordering::Relaxed);
                // The rate of the calls.
                std::thread::sleep(Duration::from_millis(2));
            }
        })
    };
    let all = caller(Box::new(move |client, stage| {
        for (user, service, is_denied) in fixed {
            let restarts = stage.restarts.load(Ordering::Acquire);
            let answer = ask(client, user, service);
            let restarts = restarts || stage.restarts.load(Ordering::Acquire);
            let is_right = match &answer {
                Ok((0, _)) => !is_denied,
                Ok(_) => is_denied || restarts,
                Err(_) => restarts,
            };
            if !is_right {
                stage.violation(&format!("{user} at {service}"), format!("{answer:?}"));
            }
        }
    }));
    let switch = caller(Box::new(move |client, stage| {
        let expected = || stage.switch.lock().expect("no caller panics").clone();
        let (before, restarts) = (expected(), stage.restarts.load(Ordering::Acquire));
        let answer = number(ask(client, "switch", "shop"));
        let restarts = restarts || stage.restarts.load(Ordering::Acquire);
        let after = expected();
        let is_right = match &answer {
            Ok(number) => before.contains(number) || after.contains(number),
            Err(_) => restarts,
        };
        if !is_right {
            stage.violation("switch", format!("{answer:?}, not one of {before:?} or {after:?}"));
        }
    }));
    vec![all, switch]
}

/// The directory, the server on it, and the numbers of the configuration.
struct Chaos {
    root: tempfile::TempDir,
    ports: Ports,
    server: Option<Server>,
    stage: Arc<Stage>,
    dice: Dice,
    round: u64,
    linked: u64,
    /// A file system of a few kilobytes for the cache, if one could be mounted.
    disk: Option<PathBuf>,
    has_cache: bool,
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let root = tempfile::tempdir().expect("a directory");
        fs::create_dir(root.path().join("cache")).expect("it is writable");
        let disk = root.path().join("disk");
        fs::create_dir(&disk).expect("it is writable");
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
            .arg(&disk)
            .stderr(std::process::Stdio::null())
            .status();
        let disk = mounted.is_ok_and(|status| status.success()).then_some(disk);
        let help = run_mixer(&["server", "--help"]).stdout;
        let mut chaos = Self {
            root,
            ports: Ports::free(),
            server: None,
            stage: Arc::default(),
            dice: Dice(seed | 1),
            round: 0,
            linked: 0,
            disk,
            has_cache: help.contains("--config-cache"),
        };
        let config = chaos.config();
        fs::create_dir(&config).expect("it is writable");
        for (name, _) in FILES {
            fs::write(config.join(name), good(name)).expect("it is writable");
        }
        for version in ["..a", "..b"] {
            fs::create_dir(config.join(version)).expect("it is writable");
        }
        chaos.swap_link();
        symlink("..data/linked.yaml", config.join("linked.yaml")).expect("a link");
        put(&chaos.file("marker.yaml"), &numbered("marker", 0));
        put(&chaos.file("switch.yaml"), &numbered("switch", 0));
        chaos.stage.switch.lock().expect("no caller panics").insert(Some(0));
        chaos
    }

    fn config(&self) -> PathBuf {
        self.root.path().join("config")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.config().join(name)
    }

    /// Starts the server; permissions bind it even where the test runs as root.
    fn start(&mut self, cache: Option<&Path>) {
        let mut builder = Server::on(&self.config()).native().on_ports(self.ports).env("RUST_BACKTRACE", "0");
        if let Some(cache) = cache.filter(|_| self.has_cache) {
            builder = builder.with(&["--config-cache", &cache.display().to_string()]);
        }
        if fs::metadata(self.root.path()).is_ok_and(|found| found.uid() == 0) {
            let drop = ["--bounding-set=-all", "--inh-caps=-all"].map(str::to_owned);
            builder = builder.through(Path::new("setpriv"), &drop);
        }
        self.server = Some(builder.start());
    }

    /// Ends the server with a signal and waits until it is gone.
    fn end(&mut self, signal: &str) {
        if let Some(mut server) = self.server.take() {
            server.signal(signal);
            server.exit_code().expect("it ends");
        }
    }

    /// Waits until everything that was written serves, and asserts what `switch` is answered then.
    fn settle(&mut self) -> Result<(), String> {
        self.round += 1;
        put(&self.file("marker.yaml"), &numbered("marker", self.round));
        let mut client = Client::new(&format!("127.0.0.1:{}", self.ports.api))?;
        let serves = || (number(ask(&mut client, "marker", "shop")) == Ok(Some(self.round))).then_some(());
        wait_for(DEADLINE, serves).ok_or_else(|| {
            let log = self.server.as_ref().map(Server::log).unwrap_or_default();
            let end: Vec<&str> = log.lines().rev().take(5).collect();
            format!("an edit after the fault does not serve: {end:?}")
        })
    }

    /// Writes a file in place, in pieces with pauses.
    fn rewrite_slowly(&mut self, path: &Path, text: &str) {
        let mut file = fs::File::create(path).expect("it is writable");
        let (first, second) = text.as_bytes().split_at(self.dice.below(text.len()));
        for piece in [first, second] {
            file.write_all(piece).expect("it is writable");
            // The pause of a slow writer.
            std::thread::sleep(Duration::from_millis(60));
        }
    }

    /// Points `..data` at the other of two directories, which denies the same user with another text, as Kubernetes mounts do.
    fn swap_link(&mut self) {
        self.linked += 1;
        let version = if self.linked.is_multiple_of(2) { "..a" } else { "..b" };
        fs::write(self.file(version).join("linked.yaml"), numbered("linked", self.linked))
            .expect("it is writable");
        let prepared = self.file("..data_prepared");
        symlink(version, &prepared).expect("a link");
        fs::rename(&prepared, self.file("..data")).expect("it is writable");
    }

    /// Changes what `switch` is answered, by a whole edit.
    fn edit_switch(&mut self) -> Result<(), String> {
        let next = self.round + 1_000;
        let is_denied = self.dice.below(4) != 0;
        self.stage.switch.lock().expect("no caller panics").insert(is_denied.then_some(next));
        if is_denied {
            put(&self.file("switch.yaml"), &numbered("switch", next));
        } else if self.file("switch.yaml").exists() {
            fs::remove_file(self.file("switch.yaml")).expect("it is writable");
            // The store waits for a file that vanished.
            let mut client = Client::new(&format!("127.0.0.1:{}", self.ports.api))?;
            let gone = || (number(ask(&mut client, "switch", "shop")) == Ok(None)).then_some(());
            wait_for(DEADLINE, gone).ok_or("a deleted rule goes on to deny")?;
        }
        self.settle()?;
        // Only the new answer is right from here on, unless the file had gone before.
        *self.stage.switch.lock().expect("no caller panics") = [is_denied.then_some(next)].into();
        Ok(())
    }

    /// One of the files that every good configuration has.
    fn some_file(&mut self) -> &'static str {
        FILES[self.dice.below(FILES.len())].0
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
    }

    /// Makes one fault and mends it. Errors: the configuration did not come back.
    fn fault(&mut self, kind: &'static str) -> Result<(), String> {
        kind.clone_into(&mut self.stage.fault.lock().expect("no caller panics"));
        match kind {
            "typo" => {
                let (file, from, to) = TYPOS[self.dice.below(TYPOS.len())];
                *self.stage.fault.lock().expect("no caller panics") = format!("typo {to}");
                put(&self.file(file), &good(file).replace(from, to));
                std::thread::sleep(FAULT);
                put(&self.file(file), &good(file));
            }
            "invalid YAML" => {
                let file = self.some_file();
                let mut lines: Vec<String> = good(file).split_inclusive('\n').map(str::to_owned).collect();
                let at = self.dice.below(lines.len());
                lines.insert(at, SYNTAX[self.dice.below(SYNTAX.len())].to_owned());
                put(&self.file(file), &lines.concat());
                std::thread::sleep(FAULT);
                put(&self.file(file), &good(file));
            }
            "half a file" => {
                // The disk was full: the writer has closed a file that ends inside its last document.
                let file = self.some_file();
                let text = good(file);
                let last = text.rfind("spec:").unwrap_or(0);
                let cut = last + 6 + self.dice.below(text.len() - last - 8);
                fs::write(self.file(file), &text[..cut]).expect("it is writable");
                std::thread::sleep(FAULT);
                put(&self.file(file), &text);
            }
            "slow writer" => {
                let file = self.some_file();
                self.rewrite_slowly(&self.file(file), &good(file));
            }
            "empty file" => {
                let file = self.some_file();
                fs::write(self.file(file), "").expect("it is writable");
                std::thread::sleep(ABSENCE);
                put(&self.file(file), &good(file));
            }
            "file renamed away" => {
                let file = self.some_file();
                let file = self.file(file);
                let away = self.root.path().join("away");
                fs::rename(&file, &away).expect("it is writable");
                std::thread::sleep(ABSENCE);
                fs::rename(&away, &file).expect("it is writable");
            }
            "references deleted" => {
                let file = ["manifest.yaml", "instances.yaml", "handlers.yaml"][self.dice.below(3)];
                *self.stage.fault.lock().expect("no caller panics") = format!("{file} deleted");
                fs::remove_file(self.file(file)).expect("it is writable");
                std::thread::sleep(LONG_FAULT);
                put(&self.file(file), &good(file));
            }
            "unreadable file" => {
                let file = self.some_file();
                let file = self.file(file);
                Self::set_mode(&file, 0);
                std::thread::sleep(LONG_FAULT);
                Self::set_mode(&file, 0o644);
            }
            "unreadable directory" => {
                Self::set_mode(&self.config(), 0);
                std::thread::sleep(LONG_FAULT);
                Self::set_mode(&self.config(), 0o755);
            }
            "directory renamed away" => {
                let away = self.root.path().join("away");
                fs::rename(self.config(), &away).expect("it is writable");
                std::thread::sleep(LONG_FAULT);
                fs::rename(&away, self.config()).expect("it is writable");
            }
            "link swapped" => {
                for _ in 0..4 {
                    self.swap_link();
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
            "burst of edits" => {
                for _ in 0..30 {
                    let (file, from, to) = TYPOS[self.dice.below(TYPOS.len())];
                    put(&self.file(file), &good(file).replace(from, to));
                    put(&self.file(file), &good(file));
                }
            }
            "whole edit" => return self.edit_switch(),
            "restart" => self.restart(|_| (), "cache", |_| ())?,
            "restart with a typo" => {
                let break_it = |chaos: &Chaos| {
                    put(&chaos.file("handlers.yaml"), &good("handlers.yaml").replace("denier", "deniar"))
                };
                let mend = |chaos: &Chaos| put(&chaos.file("handlers.yaml"), &good("handlers.yaml"));
                self.restart(break_it, "cache", mend)?;
            }
            "restart without a directory" => {
                let away = self.root.path().join("away");
                let (from, to) = (away.clone(), away);
                self.restart(
                    |chaos| fs::rename(chaos.config(), &to).expect("it is writable"),
                    "cache",
                    |chaos| fs::rename(&from, chaos.config()).expect("it is writable"),
                )?;
            }
            "restart with a typo and no cache" => {
                let break_it = |chaos: &Chaos| {
                    put(
                        &chaos.file("rules.yaml"),
                        &good("rules.yaml").replace("source.user =", "source.user "),
                    )
                };
                let mend = |chaos: &Chaos| put(&chaos.file("rules.yaml"), &good("rules.yaml"));
                self.restart(break_it, "", mend)?;
            }
            "restart without a directory and a cache" => {
                let away = self.root.path().join("away");
                let (from, to) = (away.clone(), away);
                self.restart(
                    |chaos| fs::rename(chaos.config(), &to).expect("it is writable"),
                    "",
                    |chaos| fs::rename(&from, chaos.config()).expect("it is writable"),
                )?;
            }
            "restart with a full disk" => {
                let Some(disk) = self.disk.clone() else { return Ok(()) };
                // As much as fits.
                let filled = fs::write(disk.join("ballast"), vec![b'x'; 1 << 20]);
                assert!(filled.is_err(), "the disk is not full");
                self.restart(|_| (), "disk", |_| ())?;
                fs::remove_file(disk.join("ballast")).expect("it is ours");
            }
            other => unreachable!("{other}"),
        }
        self.settle()
    }

    /// Ends the server, breaks something, starts it, and mends it after a while. `cache` names a directory; without one the server may
    /// refuse calls while something is broken.
    fn restart(
        &mut self,
        break_it: impl FnOnce(&Chaos),
        cache: &str,
        mend: impl FnOnce(&Chaos),
    ) -> Result<(), String> {
        self.stage.restarts.store(true, Ordering::Release);
        let signal = if self.dice.below(2) == 0 { "TERM" } else { "KILL" };
        self.end(signal);
        break_it(self);
        let directory = (!cache.is_empty()).then(|| self.root.path().join(cache));
        self.start(directory.as_deref());
        // Only what was never good may be refused: with a cache, calls are answered as before.
        if directory.is_some() && self.has_cache && cache != "disk" {
            self.answers_again()?;
            self.stage.restarts.store(false, Ordering::Release);
        }
        std::thread::sleep(FAULT);
        mend(self);
        self.answers_again()?;
        self.stage.restarts.store(false, Ordering::Release);
        Ok(())
    }

    /// Waits until a caller who is allowed is answered.
    fn answers_again(&self) -> Result<(), String> {
        let mut client = Client::new(&format!("127.0.0.1:{}", self.ports.api))?;
        let allowed = || matches!(ask(&mut client, "ann", "vault"), Ok((0, _))).then_some(());
        wait_for(DEADLINE, allowed).ok_or_else(|| "no call is answered after the start".to_owned())
    }
}

impl Drop for Chaos {
    fn drop(&mut self) {
        self.server = None;
        if let Some(disk) = &self.disk {
            let _ = std::process::Command::new("umount").arg(disk).status();
        }
        let _ = fs::set_permissions(self.config(), fs::Permissions::from_mode(0o755));
    }
}

/// The faults.
const FAULTS: [&str; 19] = [
    "typo",
    "invalid YAML",
    "half a file",
    "slow writer",
    "empty file",
    "file renamed away",
    "references deleted",
    "unreadable file",
    "unreadable directory",
    "directory renamed away",
    "link swapped",
    "burst of edits",
    "whole edit",
    "restart",
    "restart with a typo",
    "restart without a directory",
    "restart with a typo and no cache",
    "restart without a directory and a cache",
    "restart with a full disk",
];

/// Seconds of the test, unless `MIXER_CHAOS_SECONDS` is set; every fault is made once at least.
const SECONDS: u64 = 5;

#[test]
fn no_fault_of_the_configuration_opens_or_closes_a_door() {
    let _alone = crate::alone();
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seconds = number("MIXER_CHAOS_SECONDS").unwrap_or(SECONDS);
    let mut chaos = Chaos::new(number("MIXER_CHAOS_SEED").unwrap_or(0x9e37_79b9_7f4a_7c15));
    let cache = chaos.root.path().join("cache");
    chaos.start(Some(&cache));
    chaos.settle().expect("the first configuration serves");
    let callers = callers(&chaos.stage, &format!("127.0.0.1:{}", chaos.ports.api));
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut made: BTreeMap<&str, u64> = BTreeMap::new();
    let only = std::env::var("MIXER_CHAOS_FAULT").ok();
    let faults: Vec<&'static str> =
        FAULTS.into_iter().filter(|fault| only.as_deref().is_none_or(|only| only == *fault)).collect();
    for step in 0.. {
        if step >= faults.len() && Instant::now() >= end {
            break;
        }
        // Each once, then in random order.
        let fault = faults.get(step).copied().unwrap_or_else(|| faults[chaos.dice.below(faults.len())]);
        *made.entry(fault).or_default() += 1;
        if let Err(error) = chaos.fault(fault) {
            chaos.stage.violation("configuration", error);
            // What follows begins with a good configuration and a server that serves it.
            chaos.stage.restarts.store(true, Ordering::Release);
            let _ = fs::rename(chaos.root.path().join("away"), chaos.config());
            for (name, _) in FILES {
                put(&chaos.file(name), &good(name));
            }
            chaos.end("KILL");
            chaos.start(Some(&cache));
            chaos.settle().expect("a good configuration serves");
            chaos.stage.restarts.store(false, Ordering::Release);
        }
    }
    chaos.stage.stop.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.join().expect("no caller panics");
    }
    let calls = chaos.stage.calls.load(Ordering::Relaxed);
    println!("{calls} rounds of calls; faults {made:#?}");
    let violations = chaos.stage.violations.lock().expect("no caller panics").clone();
    assert!(violations.is_empty(), "{violations:#?}");
    assert!(calls > 0);
}
