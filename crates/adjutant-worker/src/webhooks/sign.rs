//! Signatures of the Standard Webhooks specification.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The value of `webhook-signature`: one signature per secret, over the id, the time and the body.
pub(super) fn signatures(secrets: &[Vec<u8>], id: &str, timestamp: i64, body: &str) -> String {
    let one = |secret: &Vec<u8>| {
        // HMAC accepts keys of any length.
        let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(secret).ok()?;
        mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
        Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
    };
    secrets.iter().filter_map(one).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the reference libraries.
    #[test]
    fn a_signature_equals_that_of_the_reference_libraries() {
        let secret = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = signatures(
            std::slice::from_ref(&secret),
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let both = signatures(
            &[secret, vec![1; 24]],
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(both.split(' ').count(), 2);
        assert!(both.starts_with(&format!("{signed} v1,")), "{both}");
        assert_eq!(signatures(&[], "id", 1, ""), "");
    }
}
