//! `limits.cap` of the config: the first process that has one sets the cap of a database.

use adjutant_store::{AdoptedCap, Error, Store};

use crate::config::Config;

/// Sets the cap of the config, or warns that another one was chosen before.
pub async fn adopt(store: &Store, config: &Config) -> Result<Option<AdoptedCap>, Error> {
    let Some(cap) = config.limits.given_cap() else { return Ok(None) };
    let adopted = store.adopt_cap(cap).await?;
    if adopted.adopted {
        tracing::info!("the cap is {cap} now, from limits.cap");
    } else if let Some(difference) = difference(config, adopted.cap) {
        tracing::warn!("{difference}");
    }
    Ok(Some(adopted))
}

/// As [`adopt`], for a caller that has no store yet.
pub async fn at(database_url: &str, config: &Config) -> Result<(), Error> {
    if config.limits.given_cap().is_none() {
        return Ok(());
    }
    let store = Store::open(database_url, 1).await?;
    adopt(&store, config).await?;
    store.close().await;
    Ok(())
}

/// What to say if the config has another cap than the fleet.
pub fn difference(config: &Config, cap: i64) -> Option<String> {
    let given = config.limits.given_cap().filter(|given| i64::from(*given) != cap)?;
    Some(format!(
        "limits.cap is {given}, but the cap of the fleet is {cap}, which was chosen before; change it with \
         `adjutant limits --cap {given}`, or change limits.cap"
    ))
}
