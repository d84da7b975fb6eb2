use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::http_client::answer;
use crate::support::test_server::TestServer;
use crate::support::world::{World, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_answers_open_requests_and_refuses_new_ones() {
    let world = World::new().await;
    let mut server = TestServer::on(&world);
    let mut under_way = TcpStream::connect(&server.address).await.unwrap();
    let head = "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 22\r\n\r\n";
    under_way.write_all(head.as_bytes()).await.unwrap();
    // Half a request, and a connection on which nothing is asked.
    under_way.write_all(br#"{"session_id""#).await.unwrap();
    let mut kept = TcpStream::connect(&server.address).await.unwrap();
    kept.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    answer(&mut kept).await.ok(200);

    server.signal("TERM");
    until("it takes nothing in", async || TcpStream::connect(&server.address).await.is_err()).await;
    under_way.write_all(br#": "late"}"#).await.unwrap();
    let made = answer(&mut under_way).await;
    assert_eq!(made.ok(201)["session_id"], "late");
    assert_eq!(made.header("connection"), Some("close"));
    assert!(server.exited().await.success());
}
