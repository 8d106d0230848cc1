//! Amounts of quota as `--quotas` spells them.

use std::collections::BTreeMap;

use crate::cmd::go_syntax;

/// Amounts by quota name.
pub(crate) type Quotas = BTreeMap<String, i64>;

/// Parses `name=amount,name=amount`; may be empty. Errors: the text of Istio Mixer.
pub(crate) fn parse_quotas(text: &str) -> Result<Quotas, String> {
    let mut quotas = Quotas::new();
    if text.is_empty() {
        return Ok(quotas);
    }
    for segment in text.split(',') {
        let (name, amount) = segment
            .split_once('=')
            .ok_or_else(|| format!("Quota definition {segment} does not include an = sign"))?;
        if name.is_empty() {
            return Err(format!("Quota definition {segment} does not contain a valid name"));
        }
        let parsed = go_syntax::go_decimal(amount).map_err(|error| {
            format!("Unable to parse quota value {amount}: {}", error.text("ParseInt", amount))
        })?;
        quotas.insert(name.to_owned(), parsed);
    }
    Ok(quotas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_whole_numbers() {
        assert_eq!(parse_quotas("a=1,a=2,b=-3"), Ok([("a".to_owned(), 2), ("b".to_owned(), -3)].into()));
        assert_eq!(parse_quotas(""), Ok(Quotas::new()));
        assert_eq!(parse_quotas("a").unwrap_err(), "Quota definition a does not include an = sign");
        assert_eq!(parse_quotas("=3").unwrap_err(), "Quota definition =3 does not contain a valid name");
        assert_eq!(
            parse_quotas("a=some").unwrap_err(),
            "Unable to parse quota value some: strconv.ParseInt: parsing \"some\": invalid syntax"
        );
    }
}
