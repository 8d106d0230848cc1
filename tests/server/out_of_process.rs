//! The adapter of docs/out-of-process.md: its files are written, its commands are run, and they must print what the page says.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::docs::{self, Item, commands};
use crate::support::{DEADLINE, Process, Server, free_port, programs, python, run, wait_for};

const PAGE: &str = include_str!("../../docs/out-of-process.md");

/// A fenced block of the page.
#[derive(Debug)]
enum Block {
    /// `<!-- file: NAME -->` stands above it.
    File { name: String, content: String },
    /// Commands after `$`, each with what it prints.
    Console(Vec<(String, String)>),
    /// What the adapter has printed by then. `<!-- the adapter prints -->` stands above it.
    Printed(String),
    /// `<!-- the adapter ends -->`.
    AdapterEnds,
}

/// The blocks of a section, and of the sections in it, in their order.
fn blocks(section: &str) -> Vec<Block> {
    let block = |item: Item<'_>| match item {
        Item::Comment("the adapter ends") => Some(Block::AdapterEnds),
        Item::Comment(_) => None,
        Item::Fence { comment, language, content } => match (comment.strip_prefix("file: "), language) {
            (Some(name), _) => Some(Block::File { name: name.to_owned(), content: content.to_owned() }),
            (None, "console") => Some(Block::Console(commands(content))),
            (None, _) if comment == "the adapter prints" => Some(Block::Printed(content.to_owned())),
            (None, _) => None,
        },
    };
    docs::items(PAGE, section).into_iter().filter_map(block).collect()
}

/// Somebody who does what the page says, in a directory beside a checkout.
struct Reader {
    directory: tempfile::TempDir,
    port: String,
    adapter: Option<Process>,
    /// How often the adapter was started.
    starts: usize,
    server: Option<Server>,
}

impl Reader {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let port = free_port().to_string();
        let reader = Self { directory, port, adapter: None, starts: 0, server: None };
        std::fs::create_dir(reader.path("work")).expect("it is writable");
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        std::os::unix::fs::symlink(root, reader.path("mixer")).expect("it is writable");
        reader
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// What the adapter printed so far.
    fn printed(&self) -> String {
        std::fs::read_to_string(self.path("printed")).unwrap_or_default()
    }

    /// The text with a port of this test, and time for an adapter that shares its core with other tests.
    fn ported(&self, text: &str) -> String {
        text.replace("9070", &self.port).replace("timeout: 2s", "timeout: 60s")
    }

    fn follow(&mut self, block: &Block) {
        match block {
            Block::File { name, content } => {
                let path = self.path("work").join(name);
                std::fs::create_dir_all(path.parent().expect("a parent")).expect("it is writable");
                std::fs::write(path, self.ported(content)).expect("it is writable");
            }
            Block::AdapterEnds => self.adapter = None,
            Block::Printed(text) => {
                let found = wait_for(DEADLINE, || self.printed().ends_with(text.as_str()).then_some(()));
                assert!(found.is_some(), "the adapter printed\n{}instead of\n{text}", self.printed());
            }
            Block::Console(commands) => {
                commands.iter().for_each(|(command, printed)| self.enter(command, printed));
            }
        }
    }

    fn enter(&mut self, command: &str, printed: &str) {
        match command {
            "python3 adapter.py" => {
                self.adapter = Some(self.start(command));
                self.starts += 1;
                let wanted = printed;
                let listens = wait_for(DEADLINE, || (self.printed() == wanted).then_some(()));
                assert!(listens.is_some(), "`{command}` printed\n{}", self.printed());
            }
            _ if command.starts_with("mixer server ") => {
                let arguments: Vec<&str> = command.split_whitespace().skip(2).collect();
                let server = Server::builder().native().in_directory(&self.path("work")).with(&arguments);
                self.server = Some(server.start());
            }
            _ => {
                let found = self.run(command);
                assert_eq!(found, self.ported(printed), "`{command}`");
            }
        }
    }

    /// The environment of commands: with the programs and packages of the tests.
    fn environment() -> [(String, String); 1] {
        let path = format!(
            "{}:{}:{}",
            python().parent().expect("a directory").display(),
            programs().path("mixer").parent().expect("a directory").display(),
            std::env::var("PATH").unwrap_or_default()
        );
        [("PATH".to_owned(), path)]
    }

    fn start(&self, command: &str) -> Process {
        let output = File::create(self.path("printed")).expect("it is writable");
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec {command}")]).envs(Self::environment());
        shell.current_dir(self.path("work")).stdin(Stdio::null());
        shell.stdout(output.try_clone().expect("a file")).stderr(output);
        Process::spawn(&mut shell).expect("it starts")
    }

    /// What a command prints. Clients call the server of this test.
    fn run(&self, command: &str) -> String {
        let command = match (&self.server, command.split_whitespace().nth(1)) {
            // Another command may follow, behind a pipe.
            (Some(server), Some(verb @ ("check" | "report"))) => {
                command.replacen(verb, &format!("{verb} -m {}", server.address()), 1)
            }
            _ => command.to_owned(),
        };
        let arguments = ["-c".to_owned(), format!("{{ {command}; }} 2>&1")];
        let ran =
            run(Path::new("sh"), &arguments, &Self::environment(), Some(&self.path("work")), None, DEADLINE);
        ran.expect("it ends").stdout
    }
}

#[test]
fn the_adapter_of_the_page_works_as_the_page_says() {
    let blocks = blocks("An adapter in Python");
    let mut reader = Reader::new();
    blocks.iter().for_each(|block| reader.follow(block));
    let is_complete = reader.server.is_some() && reader.starts == 2;
    assert!(is_complete, "the page starts a server, and its adapter twice: {blocks:?}");
}
