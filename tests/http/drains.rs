use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::client::answer;
use super::server::Server;
use crate::world::{World, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_under_way_is_answered_and_nothing_new_is_taken_in() {
    let world = World::new().await;
    let mut server = Server::on(&world);
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
    assert!(server.ended().await.success());
}
