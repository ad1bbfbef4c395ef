//! Writes the products with their prices, features and places in the catalogue.

use super::material::{BRANDS, KINDS, Kind, LINES};
use super::prose::{self, Subject};
use super::taxonomy::{BRAND, CATALOGUE, TAG};
use super::{DAY, FIRST_DAY, NODES, Node, PRODUCTS, Writer};
use crate::text::slug;
use rusqlite::params;

/// Writes all products, and the rules for taxes, delivery and promotions.
pub(super) fn write(writer: &mut Writer<'_>) -> rusqlite::Result<()> {
    for index in 0..PRODUCTS {
        #[expect(clippy::indexing_slicing, reason = "the remainder by the length stays under it")]
        let kind = &KINDS[index as usize % KINDS.len()];
        product(writer, index, kind)?;
    }
    write_rules(writer)
}

fn product(writer: &mut Writer<'_>, index: i64, kind: &Kind) -> rusqlite::Result<()> {
    let choices = &mut writer.choices;
    let brand = choices.pick(BRANDS).0;
    let line = choices.pick(LINES);
    let title = format!("{brand} {line} {}", kind.noun);
    let subject = Subject { noun: kind.noun, nodes: NODES, sentences: prose::PRODUCT };
    let paragraphs = 2 + choices.below(3);
    let body = prose::text(choices, paragraphs, &["What it is like", "Good to know"], &subject);
    // Prices end in 90 cents: a whole unit minus ten cents.
    let price = choices.between(kind.price.0, kind.price.1) / 100 * 100 - 10;
    let list_price = if choices.chance(20) { price + price / 1000 * 150 + 1000 } else { price };
    let weight = choices.between(kind.weight.0, kind.weight.1) / 10 * 10;
    let stock = if choices.chance(8) { 0 } else { choices.between(1, 40) };
    let features: Vec<(&str, &str)> =
        kind.features.iter().map(|(name, values)| (*name, *choices.pick(values))).collect();
    let features = serde_json::to_string(&features).unwrap_or_default();
    let created = FIRST_DAY + index * DAY / 2 + choices.between(0, DAY / 2);
    let promote = choices.chance(6);
    let alias = format!("shop/{}/{}", slug(kind.name), slug(&format!("{brand} {line}")));
    let tag = *choices.pick(super::material::TAGS);
    let tagged = choices.chance(40);
    let node = Node {
        kind: "product",
        title: &title,
        uid: 1,
        created,
        promote,
        sticky: false,
        comment: 2,
        body: &body,
        alias: &alias,
    };
    let nid = writer.node(&node)?;
    writer.run(
        "INSERT INTO product (nid, sku, price, list_price, tax_class, weight, stock, sold, image, features) \
         VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?)",
        params![
            nid,
            format!("MB-{}-{nid:04}", sku_letters(kind.name)),
            price,
            list_price,
            if kind.department == "Clothing" { "clothing" } else { "goods" },
            weight,
            stock,
            kind.image,
            features
        ],
    )?;
    writer.file_under(nid, CATALOGUE, kind.name)?;
    writer.file_under(nid, BRAND, brand)?;
    if tagged {
        writer.file_under(nid, TAG, tag)?;
    }
    Ok(())
}

fn sku_letters(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphabetic).take(3).map(|letter| letter.to_ascii_uppercase()).collect()
}

fn write_rules(writer: &Writer<'_>) -> rusqlite::Result<()> {
    for (class, name, per_mille) in [("goods", "Sales tax", 85), ("clothing", "Sales tax, clothing", 40)] {
        writer.run("INSERT INTO tax_rate VALUES (?, ?, ?)", params![class, name, per_mille])?;
    }
    let methods = [
        ("bicycle", "By cargo bike in town", 490, 0, 15_000, 40_000, 1),
        ("parcel", "Parcel", 590, 60, 20_000, 20_000, 2),
        ("freight", "Freight for whole bicycles", 3_900, 40, 250_000, 80_000, 3),
        ("collect", "Collect in a shop", 0, 0, 0, 500_000, 4),
    ];
    for (name, title, base, per_kilogram, free_from, weight_max, position) in methods {
        writer.run(
            "INSERT INTO shipping_method VALUES (?, ?, ?, ?, ?, ?, ?)",
            params![name, title, base, per_kilogram, free_from, weight_max, position],
        )?;
    }
    // Promotions that last, one that ended long ago, and one for a single brand.
    let promotions = [
        ("Light for the dark months", (CATALOGUE, "Lights"), 15, 0, 4_000),
        ("Opening sale", (CATALOGUE, "Bicycles"), 30, 0, 30),
        ("Helmets for all", (CATALOGUE, "Helmets"), 10, 100, 4_000),
        ("Twelve years of Bernal", (BRAND, "Bernal"), 12, 200, 4_000),
    ];
    for (title, (vocabulary, term), per_cent, from, to) in promotions {
        let tid = writer.terms.get(&(vocabulary, term.to_owned()));
        writer.run(
            "INSERT INTO promotion (title, tid, per_cent, starts, ends) VALUES (?, ?, ?, ?, ?)",
            params![title, tid, per_cent, FIRST_DAY + from * DAY, FIRST_DAY + to * DAY],
        )?;
    }
    Ok(())
}
