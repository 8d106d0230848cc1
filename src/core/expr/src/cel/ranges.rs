//! Comparisons of a part of a date or of a time of day with a constant that decides them, because the part is never beyond its range.

use super::plan::{Binary, Constant, Op, OpId, Plan, TimeField, Unary};
use super::value::Val;
use crate::analysis::{Decided, SuspiciousCall};
use mixer_attribute::ValueType;

/// The parts with a range, their names and a note about it. Years have none.
const RANGES: [(TimeField, &str, (i64, i64), &str); 9] = [
    (TimeField::Month, "getMonth", (0, 11), "0 is January, 11 December"),
    (TimeField::DayOfYear, "getDayOfYear", (1, 366), "1 is the first of January"),
    (TimeField::DayOfMonth, "getDayOfMonth", (0, 30), "0 is the first of the month; `getDate` counts from 1"),
    (TimeField::Date, "getDate", (1, 31), "1 is the first of the month"),
    (TimeField::DayOfWeek, "getDayOfWeek", (0, 6), "0 is Sunday, 6 Saturday"),
    (TimeField::Hours, "getHours", (0, 23), "0 is the hour after midnight"),
    (TimeField::Minutes, "getMinutes", (0, 59), "minutes of the hour"),
    (TimeField::Seconds, "getSeconds", (0, 59), "seconds of the minute"),
    (TimeField::Milliseconds, "getMilliseconds", (0, 999), "milliseconds of the second"),
];

/// A comparison with a part on its left side.
#[derive(Debug, Clone, Copy)]
enum Order {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The comparisons that are decided, by their operations.
pub(super) fn decided(plan: &Plan) -> impl Iterator<Item = SuspiciousCall> {
    plan.ops().flat_map(move |op| match op {
        Op::Equal(left, right) => either(plan, Order::Equal, *left, *right),
        Op::NotEqual(left, right) => either(plan, Order::NotEqual, *left, *right),
        Op::Binary(function, left, right) => match function {
            Binary::Less => either(plan, Order::Less, *left, *right),
            Binary::LessOrEqual => either(plan, Order::LessOrEqual, *left, *right),
            Binary::Greater => either(plan, Order::Greater, *left, *right),
            Binary::GreaterOrEqual => either(plan, Order::GreaterOrEqual, *left, *right),
            Binary::In => match plan.op(*right) {
                Op::List(items) => {
                    items.iter().flat_map(|item| one(plan, Order::Equal, *left, *item)).collect()
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        },
        _ => Vec::new(),
    })
}

/// The finding about two operands, whichever is the part.
fn either(plan: &Plan, order: Order, left: OpId, right: OpId) -> Vec<SuspiciousCall> {
    let mirrored = match order {
        Order::Less => Order::Greater,
        Order::LessOrEqual => Order::GreaterOrEqual,
        Order::Greater => Order::Less,
        Order::GreaterOrEqual => Order::LessOrEqual,
        order => order,
    };
    one(plan, order, left, right).or_else(|| one(plan, mirrored, right, left)).into_iter().collect()
}

fn one(plan: &Plan, order: Order, part: OpId, constant: OpId) -> Option<SuspiciousCall> {
    let Op::Constant(Constant::Plain(Val::Int(constant))) = plan.op(constant) else { return None };
    let field = match plan.op(part) {
        // Durations have parts without bounds.
        Op::Unary(Unary::Time(field), operand) if is_time(plan.op(*operand)) => *field,
        // With a time zone.
        Op::Binary(Binary::Time(field), ..) => *field,
        _ => return None,
    };
    let (_, function, (least, most), note) = RANGES.iter().copied().find(|(known, ..)| *known == field)?;
    let constant = *constant;
    let is_within = (least..=most).contains(&constant);
    let at_ends = |holds: fn(&i64, &i64) -> bool| match (holds(&least, &constant), holds(&most, &constant)) {
        (true, true) => Some(Decided::Always),
        (false, false) => Some(Decided::Never),
        _ => None,
    };
    let decided = match order {
        Order::Equal => (!is_within).then_some(Decided::Never),
        Order::NotEqual => (!is_within).then_some(Decided::Always),
        Order::Less => at_ends(i64::lt),
        Order::LessOrEqual => at_ends(i64::le),
        Order::Greater => at_ends(i64::gt),
        Order::GreaterOrEqual => at_ends(i64::ge),
    }?;
    Some(SuspiciousCall::OutOfRange { function, least, most, constant, note, decided })
}

/// Whether an operation certainly yields a time.
fn is_time(op: &Op) -> bool {
    matches!(op, Op::Attribute(_, ValueType::Timestamp) | Op::Unary(Unary::ToTimestamp, _))
}
