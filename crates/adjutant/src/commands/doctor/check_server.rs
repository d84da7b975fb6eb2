use super::finding::Finding;
use crate::client::{CallError, Client};
use crate::exit::Exit;

pub async fn check(client: &Client) -> Vec<Finding> {
    let url = client.url();
    match client.probe("readyz").await {
        Err(error) => {
            let advice =
                "start one with `adjutant up` or `adjutant serve`, or set --url or ADJUTANT_URL";
            return vec![Finding::wrong("server", connection_error(&error), advice)];
        }
        Ok(200) => {}
        Ok(503) => {
            let advice = "check its database and its log";
            return vec![Finding::wrong("server", format!("{url} is not ready"), advice)];
        }
        Ok(status) => {
            let advice = "check that Adjutant listens there: --url, ADJUTANT_URL";
            return vec![Finding::wrong(
                "server",
                format!("{url}/readyz answers {status}"),
                advice,
            )];
        }
    }
    vec![Finding::ok("server", format!("{url} is ready")), key(client).await]
}

fn connection_error(error: &CallError) -> String {
    match error {
        CallError::NoConnection { url, why } | CallError::NoAnswer { url, why } => {
            format!("{url}: {why}")
        }
        CallError::Refused(_) | CallError::NotAdjutant { .. } => error.to_string(),
    }
}

async fn key(client: &Client) -> Finding {
    let Err(error) = client.get(&["v1", "sessions"], vec![("limit", "1".to_owned())]).await else {
        return Finding::ok("key", "the server accepts calls from here");
    };
    let found = match error.refused() {
        Some(refusal) => format!("{} ({})", refusal.message, refusal.code),
        None => error.to_string(),
    };
    match error.exit() {
        Exit::Refused => {
            let advice = "create one with `adjutant keys create` and set ADJUTANT_API_KEY";
            Finding::wrong("key", found, advice)
        }
        Exit::Done
        | Exit::Error
        | Exit::Usage
        | Exit::TaskFailed
        | Exit::NotReady
        | Exit::NotFound
        | Exit::Unreachable => Finding::wrong("key", found, "check the server's log"),
    }
}
