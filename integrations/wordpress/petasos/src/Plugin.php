<?php
/** Joins the plugin's parts to WordPress. No part knows of another but by what is handed to it here. */

declare(strict_types=1);

namespace Petasos;

final class Plugin
{
    public static function begin(): void
    {
        if (wp_installing()) {
            return;
        }
        $purges = new Purges(self::prefix());
        (new Changes($purges))->begin();
        $purges->begin();
        (new Headers(new PageTags(new TagList(self::prefix()))))->begin();
        if (is_admin()) {
            (new Screen($purges))->begin();
        }
    }

    /** Before each tag: the blogs of a network share an edge's site. */
    private static function prefix(): string
    {
        return is_multisite() && get_current_blog_id() !== 1 ? 'b' . get_current_blog_id() . '.' : '';
    }
}
