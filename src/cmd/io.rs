//! Streams and terminal of a command. Tests use buffers instead.

use std::io::{self, IsTerminal, Read, Write};
use std::sync::Arc;

use parking_lot::Mutex;

use super::given::GivenAddresses;

/// Streams and terminal of one command.
pub struct Io {
    /// Standard output: results.
    pub(crate) out: Box<dyn Write + Send>,
    /// Standard error: errors, progress, summaries.
    pub(crate) err: Box<dyn Write + Send>,
    /// Standard input.
    pub(crate) input: Box<dyn Read + Send>,
    /// Whether standard output is a terminal.
    pub(crate) out_is_terminal: bool,
    /// Whether standard error is a terminal.
    pub(crate) err_is_terminal: bool,
    /// Columns of the terminal.
    pub(crate) width: usize,
    /// Whether standard output is colored.
    pub(crate) color: bool,
    /// Whether warnings and progress are left out.
    pub(crate) is_quiet: bool,
    /// Format of errors and warnings.
    pub(crate) error_format: ErrorFormat,
    /// The addresses of the command line, of which warnings show nothing secret.
    pub(crate) given: GivenAddresses,
}

/// Format of error messages on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum ErrorFormat {
    /// `error:`, `cause:` and `hint:` lines.
    #[default]
    Text,
    /// One JSON document per line.
    Json,
}

/// When to color output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb; always with CLICOLOR_FORCE.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Io {
    /// The streams of this process.
    pub fn process() -> Self {
        let (out, err) = (io::stdout(), io::stderr());
        let (out_is_terminal, err_is_terminal) = (out.is_terminal(), err.is_terminal());
        let out: Box<dyn Write + Send> = if out_is_terminal {
            Box::new(out)
        } else {
            Box::new(io::BufWriter::with_capacity(1 << 16, out))
        };
        let mut io = Self {
            out,
            err: Box::new(err),
            input: Box::new(io::stdin()),
            out_is_terminal,
            err_is_terminal,
            width: terminal_width(),
            color: false,
            is_quiet: false,
            error_format: ErrorFormat::Text,
            given: GivenAddresses::default(),
        };
        io.choose_color(ColorChoice::Auto);
        io
    }

    /// Buffers instead of streams, 100 columns, no terminal, no color.
    pub fn captured(input: impl Into<Vec<u8>>) -> (Self, Captured) {
        let captured = Captured::default();
        let io = Self {
            out: Box::new(captured.out.clone()),
            err: Box::new(captured.err.clone()),
            input: Box::new(io::Cursor::new(input.into())),
            out_is_terminal: false,
            err_is_terminal: false,
            width: 100,
            color: false,
            is_quiet: false,
            error_format: ErrorFormat::Text,
            given: GivenAddresses::default(),
        };
        (io, captured)
    }

    /// Applies `--color` and the environment.
    pub(crate) fn choose_color(&mut self, choice: ColorChoice) {
        let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty() && v != "0");
        self.color = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                let dumb = std::env::var_os("TERM").is_some_and(|t| t == "dumb");
                set("CLICOLOR_FORCE") || (self.out_is_terminal && !set("NO_COLOR") && !dumb)
            }
        };
    }

    /// Prints only errors from now on; with `keeps_results`, results as well.
    pub(crate) fn be_quiet(&mut self, keeps_results: bool) {
        self.is_quiet = true;
        if !keeps_results {
            self.out = Box::new(io::sink());
        }
    }

    /// Prints a warning to standard error, unless the command is quiet.
    pub(crate) fn warn(&mut self, text: &str) -> io::Result<()> {
        let text = self.given.shown(text);
        self.tell(&format!("warning: {text}"), || ("Warning", serde_json::json!({ "warning": text })))
    }

    /// Prints a remark to standard error, unless the command is quiet.
    pub(crate) fn note(&mut self, text: &str) -> io::Result<()> {
        self.tell(text, || ("Note", serde_json::json!({ "note": text })))
    }

    /// Prints a line to standard error, in the format of errors: `text`, or a document of a kind with these members. Nothing if the command is
    /// quiet.
    pub(crate) fn tell(
        &mut self,
        text: &str,
        document: impl FnOnce() -> (&'static str, serde_json::Value),
    ) -> io::Result<()> {
        match self.error_format {
            _ if self.is_quiet => Ok(()),
            ErrorFormat::Text => writeln!(self.err, "{text}"),
            ErrorFormat::Json => {
                let (kind, members) = document();
                let mut document = serde_json::json!({ "apiVersion": "mixer/v1", "kind": kind });
                if let (Some(all), serde_json::Value::Object(members)) = (document.as_object_mut(), members) {
                    all.extend(members);
                }
                writeln!(self.err, "{document}")
            }
        }
    }

    /// `text` in a style, if output is colored.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        if self.color { format!("\x1b[{}m{text}\x1b[0m", style.code()) } else { text.to_owned() }
    }
}

impl std::fmt::Debug for Io {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Io").field("width", &self.width).field("color", &self.color).finish_non_exhaustive()
    }
}

/// The role of a piece of output; selects its color.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// An error or a denial.
    Error,
    /// A warning.
    Warning,
    /// Allowed, passed or added.
    Good,
    /// Frames, line numbers, secondary text.
    Dim,
    /// A heading.
    Bold,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Style::Error => "1;31",
            Style::Warning => "1;33",
            Style::Good => "32",
            Style::Dim => "2",
            Style::Bold => "1",
        }
    }
}

fn terminal_width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    columns
        .or_else(|| terminal_size::terminal_size().map(|(width, _)| usize::from(width.0)))
        .filter(|width| *width >= 20)
        .unwrap_or(100)
}

/// The buffers of [`Io::captured`].
#[derive(Debug, Clone, Default)]
pub struct Captured {
    out: SharedBuffer,
    err: SharedBuffer,
}

impl Captured {
    /// Standard output so far.
    pub fn out(&self) -> String {
        self.out.text()
    }

    /// Standard error so far.
    pub fn err(&self) -> String {
        self.err.text()
    }
}

#[derive(Debug, Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl SharedBuffer {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock()).into_owned()
    }
}

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
