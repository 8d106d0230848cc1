//! Buckets of distributions in parameters. Adapters of Istio Mixer have the same three messages, each under names of its own.

/// Defines the messages, in one of three forms, under these names.
macro_rules! buckets_messages {
    ($definition:literal, $linear:literal, $exponential:literal, $explicit:literal) => {
        mixer_config::message! {
            /// Buckets of equal width.
            pub struct LinearBuckets: $linear {
                /// Number of buckets with two bounds, one less than the number of bounds.
                1 num_finite_buckets: i32 = 0;
                /// Distance of bounds.
                2 width: f64 = 0.0;
                /// The first bound.
                3 offset: f64 = 0.0;
            }
        }

        mixer_config::message! {
            /// Buckets of exponentially growing width.
            pub struct ExponentialBuckets: $exponential {
                /// Number of buckets with two bounds, one less than the number of bounds.
                1 num_finite_buckets: i32 = 0;
                /// Ratio of bounds; more than 1.
                2 growth_factor: f64 = 0.0;
                /// The first bound; more than 0.
                3 scale: f64 = 0.0;
            }
        }

        mixer_config::message! {
            /// Explicit buckets.
            pub struct ExplicitBuckets: $explicit {
                /// The bounds, increasing.
                1 bounds: Vec<f64> = Vec::new();
            }
        }

        mixer_config::message! {
            /// Buckets of a distribution, in one of three forms.
            pub struct BucketsDefinition: $definition {
                /// Equal width.
                1 linear_buckets: Option<LinearBuckets> = None;
                /// Exponentially growing width.
                2 exponential_buckets: Option<ExponentialBuckets> = None;
                /// Explicit bounds.
                3 explicit_buckets: Option<ExplicitBuckets> = None;
            }
        }
    };
}

pub(crate) use buckets_messages;
