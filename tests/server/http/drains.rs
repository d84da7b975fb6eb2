//! The graceful shutdown of a server.

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::http_client::answer;
use crate::support::test_server::TestServer;
use crate::support::world::{World, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_answers_open_requests_and_refuses_new_ones() {
    let world = World::new().await;
    let mut server = TestServer::on(&world);
    let mut open_request = TcpStream::connect(&server.address).await.unwrap();
    let head = "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 22\r\n\r\n";
    open_request.write_all(head.as_bytes()).await.unwrap();
    // Half of a request here, and an idle idle-alive connection below.
    open_request.write_all(br#"{"session_id""#).await.unwrap();
    let mut idle = TcpStream::connect(&server.address).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    answer(&mut idle).await.ok(200);

    server.signal("TERM");
    until("the server accepts no connections", async || {
        TcpStream::connect(&server.address).await.is_err()
    })
    .await;
    open_request.write_all(br#": "late"}"#).await.unwrap();
    let created = answer(&mut open_request).await;
    assert_eq!(created.ok(201)["session_id"], "late");
    assert_eq!(created.header("connection"), Some("close"));
    assert!(server.exited().await.success());
}
