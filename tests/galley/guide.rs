//! docs/mcp.md: its files are written, its commands are run, and they must print what the page says.

use crate::support::reader::Reader;

const PAGE: &str = include_str!("../../docs/mcp.md");

#[test]
fn what_the_page_about_mcp_says_is_so() {
    let mut reader = Reader::new(&["9901", "9876", "15014", "9091", "9877", "15015", "42422"]);
    reader.follow(PAGE, "Connect a server");
    reader.follow(PAGE, "TLS and the list of sinks");
}
