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
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::chaos_policy::{EDITS, FILES, SYNTAX, TYPOS, good, numbered};
use crate::support::rpc::Client;
use crate::support::{DEADLINE, Ports, Server, put, run_mixer, wait_for};
use crate::witnesses::{Stage, ask, callers, number};

/// How long a file may be gone or empty before its resources are deleted; the store waits a second.
const ABSENCE: Duration = Duration::from_millis(600);

/// How long other faults last.
const FAULT: Duration = Duration::from_millis(250);

/// How long references are broken.
const LONG_FAULT: Duration = Duration::from_millis(1_500);

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

/// The directory, the server on it, and the numbers of the configuration.
struct Chaos {
    root: tempfile::TempDir,
    ports: Ports,
    server: Option<Server>,
    stage: Arc<Stage>,
    dice: Dice,
    round: u64,
    linked: u64,
    /// Small file systems, one for the configuration and one for a cache, if they could be mounted.
    mounted: Vec<PathBuf>,
    has_cache: bool,
    /// Whether the server writes the directory `cache`.
    writes_cache: bool,
    /// What `switch` may be answered by the configuration in that directory.
    cached: BTreeSet<Option<u64>>,
    /// Faults that need these file systems, and were left out without them.
    skipped: u64,
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let root = tempfile::tempdir().expect("a directory");
        fs::create_dir(root.path().join("cache")).expect("it is writable");
        let mut mounted = Vec::new();
        for (name, size) in [("volume", "size=1m"), ("disk", "size=64k")] {
            let path = root.path().join(name);
            fs::create_dir(&path).expect("it is writable");
            let status = std::process::Command::new("mount")
                .args(["-t", "tmpfs", "-o", size, "tmpfs"])
                .arg(&path)
                .stderr(std::process::Stdio::null())
                .status();
            mounted.extend(status.is_ok_and(|status| status.success()).then_some(path));
        }
        let help = run_mixer(&["server", "--help"]).stdout;
        let mut chaos = Self {
            root,
            ports: Ports::free(),
            server: None,
            stage: Arc::default(),
            dice: Dice(seed | 1),
            round: 0,
            linked: 0,
            mounted,
            has_cache: help.contains("--config-cache"),
            writes_cache: false,
            cached: BTreeSet::new(),
            skipped: 0,
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
        self.root.path().join("volume").join("config")
    }

    /// A place beside the configuration, on the same file system.
    fn away(&self) -> PathBuf {
        self.root.path().join("volume").join("away")
    }

    /// Whether a file system of its own is mounted there.
    fn is_mounted(&self, name: &str) -> bool {
        self.mounted.contains(&self.root.path().join(name))
    }

    /// Fills the file system that is mounted there, and returns the file that does.
    fn fill(&self, name: &str) -> PathBuf {
        let ballast = self.root.path().join(name).join("ballast");
        // As much as fits.
        let filled = fs::write(&ballast, vec![b'x'; 2 << 20]);
        assert!(filled.is_err(), "the disk is not full");
        ballast
    }

    fn file(&self, name: &str) -> PathBuf {
        self.config().join(name)
    }

    /// Starts the server; permissions bind it even where the test runs as root.
    fn start(&mut self, cache: Option<&Path>) {
        let mut builder = Server::on(&self.config()).native().on_ports(self.ports).env("RUST_BACKTRACE", "0");
        self.writes_cache =
            self.has_cache && cache.is_some_and(|cache| cache == self.root.path().join("cache"));
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

    /// Waits until everything that was written serves, and is in the cache.
    fn settle(&mut self) -> Result<(), String> {
        self.round += 1;
        put(&self.file("marker.yaml"), &numbered("marker", self.round));
        let mut client = Client::new(&format!("127.0.0.1:{}", self.ports.api))?;
        let serves = || (number(ask(&mut client, "marker", "shop")) == Ok(Some(self.round))).then_some(());
        wait_for(DEADLINE, serves).ok_or_else(|| {
            let log = self.server.as_ref().map(Server::log).unwrap_or_default();
            let end: Vec<&str> = log.lines().rev().take(5).collect();
            format!("an edit after the fault does not serve: {end:?}")
        })?;
        if self.writes_cache {
            let cache = self.root.path().join("cache").join("last-good.cache");
            // The handler of the marker, in JSON.
            let text = format!(
                "{{name: marker, namespace: istio-system}}\\nspec: {{compiledAdapter: denier, \
                 params: {{status: {{code: 7, message: number {}}}",
                self.round
            );
            let written =
                || fs::read_to_string(&cache).is_ok_and(|found| found.contains(&text)).then_some(());
            wait_for(DEADLINE, written).ok_or("the cache is not written")?;
            self.cached.clone_from(&self.stage.switch.lock().expect("no caller panics"));
        }
        Ok(())
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

    /// Changes what `switch` is answered, by a whole edit or by a deletion.
    fn edit_switch(&mut self, is_denied: bool) -> Result<(), String> {
        let next = self.round + 1_000;
        self.stage.switch.lock().expect("no caller panics").insert(is_denied.then_some(next));
        if is_denied {
            put(&self.file("switch.yaml"), &numbered("switch", next));
            // A scan that began before may find the next file without this one: an edit is in effect once it decides.
            let mut client = Client::new(&format!("127.0.0.1:{}", self.ports.api))?;
            let serves = || (number(ask(&mut client, "switch", "shop")) == Ok(Some(next))).then_some(());
            wait_for(DEADLINE, serves).ok_or("an edited rule does not serve")?;
        } else if self.file("switch.yaml").exists() {
            fs::remove_file(self.file("switch.yaml")).expect("it is writable");
            // The store waits for a file that vanished.
            let mut client = Client::new(&format!("127.0.0.1:{}", self.ports.api))?;
            let gone = || (number(ask(&mut client, "switch", "shop")) == Ok(None)).then_some(());
            wait_for(DEADLINE, gone).ok_or("a deleted rule goes on to deny")?;
        }
        self.settle()?;
        // Only the new answer is right from here on, unless the file had gone before.
        self.expect_of_switch([is_denied.then_some(next)].into());
        Ok(())
    }

    /// Notes what `switch` may be answered, now that everything serves.
    fn expect_of_switch(&mut self, expected: BTreeSet<Option<u64>>) {
        if self.writes_cache {
            self.cached.clone_from(&expected);
        }
        *self.stage.switch.lock().expect("no caller panics") = expected;
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
        let expected = self.stage.switch.lock().expect("no caller panics").clone();
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
                let away = self.away();
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
                let away = self.away();
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
            "whole edit" => return self.edit_switch(true),
            "deletion" => return self.edit_switch(false),
            "random edit" => {
                let (file, from, to) = EDITS[self.dice.below(EDITS.len())];
                let text = good(file).replace(from, to);
                let mut documents: Vec<&str> = text.split("---\n").collect();
                if self.dice.below(2) == 0 {
                    documents.reverse();
                }
                let text = format!("# round {}\n{}", self.round, documents.join("---\n"));
                match self.dice.below(3) {
                    0 => self.rewrite_slowly(&self.file(file), &text),
                    1 => fs::write(self.file(file), &text).expect("it is writable"),
                    _ => put(&self.file(file), &text),
                }
                std::thread::sleep(FAULT);
                put(&self.file(file), &good(file));
            }
            "file renamed" => {
                let file = self.some_file();
                let (file, other) = (self.file(file), self.file("renamed.yaml"));
                fs::rename(&file, &other).expect("it is writable");
                std::thread::sleep(LONG_FAULT);
                fs::rename(&other, &file).expect("it is writable");
            }
            "file renamed with a typo" => {
                let (file, from, to) = TYPOS[self.dice.below(TYPOS.len())];
                *self.stage.fault.lock().expect("no caller panics") = format!("file renamed, typo {to}");
                let other = self.file("renamed.yaml");
                fs::remove_file(self.file(file)).expect("it is writable");
                put(&other, &good(file).replace(from, to));
                std::thread::sleep(LONG_FAULT);
                put(&other, &good(file));
                fs::rename(&other, self.file(file)).expect("it is writable");
            }
            "full disk below the configuration" => {
                if !self.is_mounted("volume") {
                    self.skipped += 1;
                    return Ok(());
                }
                let name = self.some_file();
                let mut file = fs::File::create(self.file(name)).expect("it is writable");
                let ballast = self.fill("volume");
                assert!(file.write_all(good(name).as_bytes()).is_err(), "the disk is not full");
                drop(file);
                std::thread::sleep(LONG_FAULT);
                fs::remove_file(ballast).expect("it is ours");
                put(&self.file(name), &good(name));
            }
            "restart" => self.restart(|_| (), "cache", |_| ())?,
            "restart with a typo" => {
                let break_it = |chaos: &Chaos| {
                    put(&chaos.file("handlers.yaml"), &good("handlers.yaml").replace("denier", "deniar"))
                };
                let mend = |chaos: &Chaos| put(&chaos.file("handlers.yaml"), &good("handlers.yaml"));
                self.restart(break_it, "cache", mend)?;
            }
            "restart without a directory" => {
                let away = self.away();
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
                let away = self.away();
                let (from, to) = (away.clone(), away);
                self.restart(
                    |chaos| fs::rename(chaos.config(), &to).expect("it is writable"),
                    "",
                    |chaos| fs::rename(&from, chaos.config()).expect("it is writable"),
                )?;
            }
            "restart with a full disk" => {
                if !self.is_mounted("disk") {
                    self.skipped += 1;
                    return Ok(());
                }
                let ballast = self.fill("disk");
                self.restart(|_| (), "disk", |_| ())?;
                fs::remove_file(ballast).expect("it is ours");
            }
            other => unreachable!("{other}"),
        }
        self.settle()?;
        if kind.starts_with("restart") {
            let mut client = Client::new(&format!("127.0.0.1:{}", self.ports.api))?;
            let is_expected =
                |answer: &Result<_, _>| answer.as_ref().is_ok_and(|answer| expected.contains(answer));
            let over = || is_expected(&number(ask(&mut client, "switch", "shop"))).then_some(());
            wait_for(DEADLINE, over).ok_or("what a restart expected goes on to decide")?;
        }
        self.expect_of_switch(expected);
        Ok(())
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
        if cache == "cache" {
            // It may be older than the configuration that served, if the last server did not write it.
            self.stage.switch.lock().expect("no caller panics").extend(&self.cached);
        }
        let directory = (!cache.is_empty()).then(|| self.root.path().join(cache));
        // What the directory lacks is expected for a while, whatever the age of the cache.
        let known = directory.as_deref().and_then(number_in_cache);
        self.stage.switch.lock().expect("no caller panics").extend(known.map(Some));
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
        let _ = fs::set_permissions(self.config(), fs::Permissions::from_mode(0o755));
        for path in &self.mounted {
            let _ = std::process::Command::new("umount").arg(path).status();
        }
    }
}

/// The faults.
const FAULTS: [&str; 24] = [
    "random edit",
    "typo",
    "invalid YAML",
    "half a file",
    "slow writer",
    "empty file",
    "full disk below the configuration",
    "file renamed away",
    "file renamed",
    "file renamed with a typo",
    "references deleted",
    "unreadable file",
    "unreadable directory",
    "directory renamed away",
    "link swapped",
    "burst of edits",
    "whole edit",
    "deletion",
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
            let _ = fs::rename(chaos.away(), chaos.config());
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
    println!("{calls} calls; {} faults, {} of them left out", made.values().sum::<u64>(), chaos.skipped);
    for (fault, count) in &made {
        println!("{count:>6} {fault}");
    }
    let violations = chaos.stage.violations.lock().expect("no caller panics").clone();
    assert!(violations.is_empty(), "{violations:#?}");
    assert!(calls > 0);
}

/// The number that the handler of `switch` has in a cache of the last good configuration.
fn number_in_cache(directory: &Path) -> Option<u64> {
    let cache = fs::read_to_string(directory.join("last-good.cache")).ok()?;
    let (_, handler) = cache.split_once(
        "{name: switch, namespace: istio-system}\\nspec: {compiledAdapter: denier, params: {status: {code: 7, message: number ",
    )?;
    let digits: String = handler.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}
