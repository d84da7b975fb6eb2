use std::time::Duration;

/// A model's time to think begins only after this.
const CONNECT: Duration = Duration::from_secs(10);
const KEEP_IDLE: Duration = Duration::from_secs(60);

/// The client that all models of a process share, with its pool of connections; proxies as the environment names them.
///
/// HTTP/1.1, as the vendors' own SDKs use it: of HTTP/2 there would be one connection for each host, with as many calls at
/// once as that host allows (often 100), and all of them would fall with it.
pub fn http_client() -> Result<reqwest::Client, reqwest::Error> {
    // Someone else may have chosen one already; that is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    builder().build().or_else(|error| {
        // A model in the same network needs no certificates, and a small image may have none.
        tracing::warn!("no certificates of authorities, so that no https URL will be trusted: {error}");
        builder().tls_certs_only([]).build()
    })
}

fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .user_agent(concat!("adjutant/", env!("CARGO_PKG_VERSION")))
        .http1_only()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT)
        .pool_idle_timeout(KEEP_IDLE)
        .tcp_nodelay(true)
}
