use std::time::Duration;

/// Timeout of connecting, which is not part of the model's own time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The HTTP client that all models of a process share, with its connection pool. Proxies come from
/// the environment.
///
/// It speaks HTTP/1.1, as the vendors' SDKs do. HTTP/2 would use one connection per host: the host
/// limits its concurrent calls (often to 100), and all of them fail when it does.
pub fn http_client() -> Result<reqwest::Client, reqwest::Error> {
    // This fails if a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    builder().build().or_else(|error| {
        // A small container image may have no certificates, and a model in the same network needs
        // none.
        tracing::warn!("no root certificates found, so calls to https URLs will fail: {error}");
        builder().tls_certs_only([]).build()
    })
}

fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .user_agent(concat!("adjutant/", env!("CARGO_PKG_VERSION")))
        .http1_only()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .tcp_nodelay(true)
}
