//! `adjutant wait`: which tasks it waits for.

use anyhow::Result;

use crate::cli::client_commands::{adjutant, code, stderr, waited};
use crate::support::canned_server::CannedServer;

#[test]
fn a_wait_is_for_any_of_the_tasks_and_with_a_flag_for_all() -> Result<()> {
    for (line, mode) in [
        (&["wait", "t_03", "t_04"][..], "any"),
        (&["wait", "t_03", "t_04", "--any"], "any"),
        (&["wait", "t_03", "t_04", "--all"], "all"),
        (&["wait"], "any"),
        (&["wait", "--all"], "all"),
    ] {
        let server = CannedServer::new([waited("completed")]);
        let output = adjutant(&server.url(), line).output()?;
        assert_eq!(code(&output), Some(0), "{output:?}");
        assert_eq!(server.requests()[0].body["mode"], mode, "{line:?}");
        let says_what_is_left = stderr(&output).contains("not ended yet: t_04");
        assert_eq!(says_what_is_left, line.contains(&"t_04"), "{output:?}");
    }
    Ok(())
}
