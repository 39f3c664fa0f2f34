from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0015_bots'),
    ]

    operations = [
        migrations.AddField(
            model_name='apitoken',
            name='warned_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddIndex(
            model_name='apitoken',
            index=models.Index(condition=models.Q(('expires_at__isnull', False), ('revoked_at', None), ('warned_at', None)), fields=['expires_at'], name='token_to_warn'),
        ),
    ]
