//! HTTP, as the streamable transport uses it, with one thing mended.
//!
//! A server that was replaced knows no session any more. Some say so with a status of 404, and the transport begins a new one.
//! Many say so with a 400 and an error that belongs to no request, which the transport passes on to nobody: whoever has
//! asked waits for ever.

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
        understood(answer, session)
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
        most: usize,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let client = &self.0;
        let asked = session.clone();
        let answer =
            client.post_message_with_max_sse_event_size(uri, message, asked, auth, headers, most).await?;
        understood(answer, session)
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
        most: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        self.0.get_stream_with_max_sse_event_size(uri, session, last_event, auth, headers, most).await
    }
}

/// What a server refuses without having read whose request it is, it refuses for its session, if it has one.
fn understood(
    answer: StreamableHttpPostResponse,
    session: Option<Arc<str>>,
) -> Result<StreamableHttpPostResponse, Failure> {
    let is_for_nobody = matches!(
        &answer,
        StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), _) if error.id.is_none()
    );
    if is_for_nobody && session.is_some() { Err(StreamableHttpError::SessionExpired) } else { Ok(answer) }
}
