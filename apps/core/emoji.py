"""Emoji by the names that people write between colons, as other forges have them."""

from __future__ import annotations

NAMES = """
    +1 👍 -1 👎 100 💯 alien 👽 ambulance 🚑️ anger 💢 art 🎨 beer 🍺 bell 🔔 birthday 🎂
    blush 😊 bomb 💣 book 📖 bookmark 🔖 boom 💥 broken_heart 💔 bug 🐛 bulb 💡 cake 🍰 calendar 📆
    camera 📷 cat 🐱 chart_with_upwards_trend 📈 clap 👏 clipboard 📋 cloud ☁️ coffee ☕ computer 💻
    confetti_ball 🎊 confused 😕 construction 🚧 cry 😢 dog 🐶 email 📧 exclamation ❗
    eyes 👀 facepalm 🤦 fire 🔥 ghost 👻 gift 🎁 globe_with_meridians 🌐 grin 😁
    grinning 😀 hammer 🔨 hand ✋ heart ❤️ heart_eyes 😍 heavy_check_mark ✔️ hourglass ⌛
    hugs 🤗 innocent 😇 joy 😂 key 🔑 laughing 😆 link 🔗 lock 🔒
    loudspeaker 📢 mag 🔍 mega 📣 memo 📝 muscle 💪 no_entry ⛔ ok_hand 👌
    open_mouth 😮 package 📦 paperclip 📎 pencil 📝 pencil2 ✏️ point_down 👇 point_left 👈
    point_right 👉 point_up ☝️ pray 🙏 pushpin 📌 question ❓ rage 😡 rainbow 🌈 raised_hands 🙌
    recycle ♻️ robot 🤖 rocket 🚀 rofl 🤣 rotating_light 🚨 scream 😱 seedling 🌱
    shield 🛡️ shrug 🤷 skull 💀 sleeping 😴 smile 😄 smiley 😃 smirk 😏 snail 🐌 snake 🐍
    snowflake ❄️ sob 😭 sparkles ✨ star ⭐ stop_sign 🛑 sunglasses 😎 sunny ☀️ sweat_smile 😅
    tada 🎉
    thinking 🤔 thumbsdown 👎 thumbsup 👍 trophy 🏆 truck 🚚 turtle 🐢 warning ⚠️ wastebasket 🗑️
    wave 👋
    white_check_mark ✅ wink 😉 wrench 🔧 x ❌ yum 😋 zap ⚡ zzz 💤
"""
_WORDS = NAMES.split()
EMOJI = dict(zip(_WORDS[::2], _WORDS[1::2], strict=True))
