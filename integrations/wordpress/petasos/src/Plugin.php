<?php
/**
 * Connects the plugin's parts with WordPress. Parts know each other only through the objects that
 * they receive here.
 */

declare(strict_types=1);

namespace Petasos;

final class Plugin
{
    public static function begin(): void
    {
        if (wp_installing()) {
            return;
        }
        Settings::adopt(Stored::read());
        $purges = new Purges(self::prefix());
        (new Changes($purges))->begin();
        $purges->begin();
        Shop::begin($purges);
        Languages::begin();
        SiteHealth::begin();
        AdminBar::begin();
        (new Headers(new PageTags(new TagList(self::prefix()))))->begin();
        if (is_admin()) {
            (new Actions($purges))->begin();
            (new Screen())->begin();
        }
    }

    /** Prefix of tags, because the blogs of a network share one site of the edge. */
    private static function prefix(): string
    {
        return is_multisite() && get_current_blog_id() !== 1 ? 'b' . get_current_blog_id() . '.' : '';
    }
}
