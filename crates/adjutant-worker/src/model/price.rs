use adjutant_agent::Usage;
use serde::Deserialize;

/// The prices of a model in US dollars per million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Prices {
    pub input: f64,
    pub output: f64,
    /// The price of input that the provider read from its cache. Default: the price of other input.
    pub cache_read: Option<f64>,
    /// The price of input that the provider wrote to its cache. Default: the price of other input.
    pub cache_write: Option<f64>,
}

/// Prices as integers: US dollars x 10^-12 per token.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rates {
    input: i64,
    output: i64,
    cache_read: i64,
    cache_write: i64,
}

/// The token counts of a server. The cached ones are part of the input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TokenCounts {
    pub input: i64,
    pub output: i64,
    pub cache_read: i64,
    pub cache_write: i64,
}

/// Far more than any model reads or writes in one call.
const MOST_TOKENS: i64 = 1_000_000_000;

impl Rates {
    /// The error is the name of the invalid price.
    pub(super) fn new(prices: &Prices) -> Result<Self, &'static str> {
        let input = rate(prices.input).ok_or("input")?;
        Ok(Self {
            input,
            output: rate(prices.output).ok_or("output")?,
            cache_read: prices.cache_read.map_or(Some(input), rate).ok_or("cache_read")?,
            cache_write: prices.cache_write.map_or(Some(input), rate).ok_or("cache_write")?,
        })
    }

    pub(super) fn usage(&self, counts: TokenCounts) -> Usage {
        // A server that counts nonsense must not make the sums in the database overflow.
        let bounded = |tokens: i64| tokens.clamp(0, MOST_TOKENS);
        let counts =
            TokenCounts { input: bounded(counts.input), output: bounded(counts.output), ..counts };
        let cache_read = counts.cache_read.min(counts.input);
        let cache_write = counts.cache_write.min(counts.input - cache_read);
        let cost: i128 = [
            (self.input, counts.input - cache_read - cache_write),
            (self.cache_read, cache_read),
            (self.cache_write, cache_write),
            (self.output, counts.output),
        ]
        .into_iter()
        .map(|(rate, tokens)| i128::from(rate) * i128::from(tokens))
        .sum();
        Usage {
            input_tokens: counts.input,
            output_tokens: counts.output,
            cache_read_tokens: cache_read,
            cache_write_tokens: cache_write,
            cost_nanousd: i64::try_from((cost + 500) / 1000).unwrap_or(i64::MAX),
            estimated: false,
        }
    }
}

/// Rounds to six decimals in decimal notation, so that 0.1 is exactly a tenth.
fn rate(price: f64) -> Option<i64> {
    if !(0.0..=1e6).contains(&price) {
        return None;
    }
    format!("{price:.6}").replace('.', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(prices: Prices, counts: TokenCounts) -> i64 {
        Rates::new(&prices).unwrap().usage(counts).cost_nanousd
    }

    #[test]
    fn costs_are_exact_and_cached_input_has_its_own_price() {
        let prices =
            Prices { input: 3.0, output: 15.0, cache_read: Some(0.3), cache_write: Some(3.75) };
        let counts = TokenCounts { input: 1_000, output: 10, cache_read: 700, cache_write: 200 };
        assert_eq!(cost(prices, counts), 100 * 3_000 + 700 * 300 + 200 * 3_750 + 10 * 15_000);
    }

    #[test]
    fn cached_input_without_a_price_costs_the_same_as_other_input() {
        let prices = Prices { input: 0.1, output: 0.0, ..Prices::default() };
        let counts = TokenCounts { input: 3, output: 5, cache_read: 1, cache_write: 1 };
        assert_eq!(cost(prices, counts), 300);
    }

    #[test]
    fn the_cost_is_rounded_once() {
        let prices = Prices { input: 0.0375, output: 0.0, ..Prices::default() };
        let counts = |input| TokenCounts { input, ..TokenCounts::default() };
        assert_eq!(cost(prices, counts(1)), 38);
        assert_eq!(cost(prices, counts(2)), 75);
        assert_eq!(cost(prices, counts(2_000_001)), 75_000_038);
    }

    #[test]
    fn more_cached_tokens_than_input_tokens_cost_no_negative_amount() {
        let counts = TokenCounts { input: 10, output: 0, cache_read: 50, cache_write: 50 };
        let usage = Rates::new(&Prices { input: 1.0, ..Prices::default() }).unwrap().usage(counts);
        assert_eq!(
            (usage.cache_read_tokens, usage.cache_write_tokens, usage.cost_nanousd),
            (10, 0, 10_000)
        );
    }

    #[test]
    fn an_invalid_price_is_named() {
        for bad in [-1.0, f64::NAN, f64::INFINITY] {
            let prices = Prices { cache_read: Some(bad), ..Prices::default() };
            assert_eq!(Rates::new(&prices).unwrap_err(), "cache_read");
        }
    }
}
