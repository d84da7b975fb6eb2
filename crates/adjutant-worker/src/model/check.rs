use super::{ConfigError, Model, ModelConfig};

impl ModelConfig {
    /// Checks everything but the key, which may be on another machine.
    pub fn check(&self, name: &str) -> Result<(), ConfigError> {
        Self { api_key_env: None, api_key_file: None, ..self.clone() }.check_with_key(name)
    }

    /// Checks everything, and that the key can be read here.
    pub fn check_with_key(&self, name: &str) -> Result<(), ConfigError> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        // It makes no calls, so it needs no certificates, which take long to load.
        let client = reqwest::Client::builder().tls_certs_only([]).build();
        let client = client.map_err(|error| ConfigError {
            model: name.to_owned(),
            setting: "base_url".to_owned(),
            problem: error.to_string(),
        })?;
        Model::new(name, self, client).map(drop)
    }
}
