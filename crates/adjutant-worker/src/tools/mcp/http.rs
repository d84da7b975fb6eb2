//! The HTTP client of the streamable transport, with a fix for expired sessions.
//!
//! A restarted server does not know old sessions. With status 404 the transport starts a new one.
//! But many servers answer with status 400 and a JSON-RPC error without a request id, which the
//! transport delivers to no caller, so that the call would wait forever.

use std::collections::HashMap;
use std::sync::Arc;

use futures::stream::BoxStream;
use reqwest::Client;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;

type Failure = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;

#[derive(Clone)]
pub(super) struct Http(pub(super) Client);

impl StreamableHttpClient for Http {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let answer = self.0.post_message(uri, message, session.clone(), auth, headers).await?;
        check_session(answer, session)
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
        max: usize,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let client = &self.0;
        let session_id = session.clone();
        let answer = client
            .post_message_with_max_sse_event_size(uri, message, session_id, auth, headers, max)
            .await?;
        check_session(answer, session)
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<(), Failure> {
        self.0.delete_session(uri, session, auth, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        self.0.get_stream(uri, session, last_event, auth, headers).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: Headers,
        max: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        self.0
            .get_stream_with_max_sse_event_size(uri, session, last_event, auth, headers, max)
            .await
    }
}

/// Treats an error without a request id as an expired session.
fn check_session(
    answer: StreamableHttpPostResponse,
    session: Option<Arc<str>>,
) -> Result<StreamableHttpPostResponse, Failure> {
    let has_no_request = matches!(
        &answer,
        StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), _) if error.id.is_none()
    );
    if has_no_request && session.is_some() {
        Err(StreamableHttpError::SessionExpired)
    } else {
        Ok(answer)
    }
}
