//! Masking of secrets, which are recognised by name.

use serde_json::Value;

/// Replaces a secret value.
pub const MASKED: &str = "***";

/// Whether a value with this name must be masked.
pub fn is_secret(name: &str) -> bool {
    const SECRET: [&str; 7] = ["token", "secret", "password", "passwd", "key", "authorization", "cookie"];
    let name = name.to_ascii_lowercase();
    SECRET.iter().any(|part| name.contains(part))
}

/// Masks strings in a document whose names are those of secrets, at any depth.
pub fn mask_document(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(text) if !text.is_empty() && is_secret(name) => *text = MASKED.to_owned(),
                    other => mask_document(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask_document),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_recognised_by_name() {
        assert!(is_secret("AWS_SECRET_ACCESS_KEY") && is_secret("x-api-key") && is_secret("Cookie"));
        assert!(!is_secret("PATH"));
    }

    #[test]
    fn secrets_are_masked_at_any_depth() {
        let mut value =
            serde_json::json!({"apiKey": "x", "list": [{"authToken": "y", "name": "z"}], "keyCount": 3});
        mask_document(&mut value);
        assert_eq!(
            value,
            serde_json::json!({"apiKey": "***", "list": [{"authToken": "***", "name": "z"}], "keyCount": 3})
        );
    }
}
